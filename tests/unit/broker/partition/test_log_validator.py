"""A single record is validated like one of several."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_kafka_sink.broker.partition.log_validator import (
    AppendOptions,
    RejectedBatchError,
    check_records,
)
from spark_kafka_sink.broker.topic_config import TopicConfig
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from spark_kafka_sink.kafka.records.varint import varint
from tools.compat.scenarios.produce import Raw

NOW = 1_700_000_000_000
HOUR = 3_600_000

CONFIGS = st.fixed_dictionaries(
    {},
    optional={
        "cleanup.policy": st.sampled_from(["delete", "compact", "compact,delete"]),
        "message.timestamp.type": st.sampled_from(["CreateTime", "LogAppendTime"]),
        "message.timestamp.before.max.ms": st.sampled_from(["0", str(HOUR), str(2**63 - 1)]),
        "compression.type": st.sampled_from(["producer", "uncompressed", "gzip", "lz4"]),
    },
)
TIMES = st.sampled_from([-1 - NOW, -2 * HOUR, -HOUR, -1, 0, 1, HOUR, HOUR + 1, 2 * HOUR])
KEYS = st.sampled_from([varint(-1), varint(0), varint(-2), varint(2) + b"ab", varint(200) + b"ab"])
CODECS = st.sampled_from([Codec.NONE, Codec.GZIP, Codec.LZ4])


def judged(raws: list[Raw], codec: Codec, options: AppendOptions) -> int | tuple[object, ...]:
    """Return the largest timestamp, or the error with its first message."""
    section = compress(codec, b"".join(raw.bytes() for raw in raws))
    header = BatchHeader(
        attributes=int(codec),
        last_offset_delta=len(raws) - 1,
        base_timestamp=NOW,
        record_count=len(raws),
    )
    batch = header.pack([section]) + section
    try:
        return check_records(batch, BatchHeader.parse(batch), options)
    except RejectedBatchError as error:
        return error.error, error.records.get(0), error.has_public_message, error.is_early


@given(TIMES, st.integers(-1, 2), KEYS, CODECS, CONFIGS)
def test_single_record_is_validated_like_two_equal_ones(
    time: int, delta: int, key: bytes, codec: Codec, config: dict[str, str]
) -> None:
    options = AppendOptions(config=TopicConfig(own=config).log, produce_version=9, now_ms=NOW)
    raw = Raw(time=time, delta=delta, key=key)
    alone = judged([raw], codec, options)
    assert alone == judged([raw, replace(raw, delta=delta + 1)], codec, options)
    if isinstance(alone, int):
        assert alone == NOW + time
