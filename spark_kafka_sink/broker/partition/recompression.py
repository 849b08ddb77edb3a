"""Records in the codec that the topic wants (compression.type), whatever the producer chose.

As Kafka's LogValidator: only a topic with a codec of its own has this work, per batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.partition.refused_batch import RefusedBatchError
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.records.compression import compress
from spark_kafka_sink.records.decoder import records_section
from spark_kafka_sink.records.record_batch import BatchHeader

if TYPE_CHECKING:
    from spark_kafka_sink.broker.topic_config import TopicConfig

_CODEC_MASK = 0x07
_LEVELS = {
    Codec.GZIP: "compression.gzip.level",
    Codec.LZ4: "compression.lz4.level",
    Codec.ZSTD: "compression.zstd.level",
}


def as_topic_wants(
    batch: memoryview | bytes, header: BatchHeader, config: TopicConfig
) -> tuple[memoryview | bytes, BatchHeader]:
    """The batch in the topic's codec; the same one where that is the producer's.

    Raises:
        RefusedBatchError: its records do not decompress, or are too large now.
    """
    codec = config.batch_rules.codec
    if codec is None or header.is_control or codec is header.codec:
        return batch, header
    try:
        records = compress(codec, records_section(batch, header), _level(codec, config))
    except ProtocolError as error:
        raise RefusedBatchError(ErrorCode.corrupt_message, error.message) from error
    attributes = header.attributes & ~_CODEC_MASK | codec
    new = header._replace(attributes=attributes).pack([records]) + records
    _check_size(len(new), config)
    return new, BatchHeader.parse(new)


def _level(codec: Codec, config: TopicConfig) -> int | None:
    level = int(config[_LEVELS[codec]]) if codec in _LEVELS else None
    return None if codec is Codec.GZIP and level == -1 else level


def _check_size(size: int, config: TopicConfig) -> None:
    limit = config.batch_rules.max_bytes
    if size > limit:
        raise RefusedBatchError(
            ErrorCode.message_too_large,
            f"The batch has {size} bytes in the topic's codec, the limit is {limit}",
        )
