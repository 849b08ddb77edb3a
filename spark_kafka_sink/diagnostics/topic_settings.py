"""A topic's settings against ours: what would be refused, made slower, or overwritten. Pure.

Source: Kafka's ``TopicConfig``, ``UnifiedLog.append``, ``LogValidator``, ``Partition``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import (
    BrokerUnavailableError,
    ColumnError,
    ConfigError,
    RecordTooLargeError,
)
from spark_kafka_sink.common.quantity import plural
from spark_kafka_sink.config.enums import Acks, Codec
from spark_kafka_sink.diagnostics.finding import Finding, Step
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.diagnostics.topics import TopicFacts

MAX_MESSAGE: Final = "max.message.bytes"
MIN_IN_SYNC: Final = "min.insync.replicas"
COMPRESSION: Final = "compression.type"
TIMESTAMP_TYPE: Final = "message.timestamp.type"
TIMESTAMP_BEFORE: Final = "message.timestamp.before.max.ms"
CLEANUP: Final = "cleanup.policy"
SETTINGS: Final = (
    MAX_MESSAGE,
    MIN_IN_SYNC,
    COMPRESSION,
    TIMESTAMP_TYPE,
    TIMESTAMP_BEFORE,
    CLEANUP,
)
"""Those that bear on a write."""

_PRODUCER: Final = "producer"
_CODEC_NAMES: Final = {"uncompressed": Codec.NONE} | {
    codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE
}
_LIKELY_RATIO: Final = 4
"""Compression may make batches fit; by more than this it would be luck."""
_NO_LIMIT: Final = 2**62
_STEP: Final = Step.SETTINGS


def judge_settings(facts: TopicFacts, config: SinkConfig, has_key: bool | None) -> list[Finding]:
    """Compare a topic's settings with the sink's.

    Args:
        facts: of a topic that exists.
        config: the sink's.
        has_key: whether the rows have a column `key`; None where that is not known.

    Returns:
        What is wrong; where nothing is, one finding that says what was looked at.
    """
    found = [*_replicas(facts, config)]
    if facts.settings is None:
        text = f"{facts.name}: can't be seen, DescribeConfigs on the topic is denied"
        return [*found, Finding.note(_STEP, text)]
    found += [
        *_sizes(facts, config),
        *_codec(facts, config),
        *_timestamps(facts, config),
        *_compaction(facts, config, has_key),
    ]
    if found:
        return found
    shown = (MAX_MESSAGE, MIN_IN_SYNC, COMPRESSION, CLEANUP)
    told = [f"{name}={facts.settings[name]}" for name in shown if facts.settings.get(name)]
    return [Finding.ok(_STEP, f"{facts.name}: {', '.join(told)}")]


def _replicas(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    least = _number(facts, MIN_IN_SYNC)
    if config.producer.acks is not Acks.ALL or least is None or not facts.replicas:
        return
    name, code = facts.name, error_name(ErrorCode.not_enough_replicas)
    if least > facts.replicas:
        have = f"a partition of topic {name} has {facts.replicas}"
        yield Finding.warning(
            _STEP,
            ConfigError(
                f"{MIN_IN_SYNC}={least}, and {have}: most brokers refuse every batch of such a "
                "topic with acks=all, newer ones take all replicas for enough",
                topic=name,
                error=code,
                hint=f"Lower {MIN_IN_SYNC} of the topic, or give it more replicas",
            ),
        )
    elif facts.in_sync < least:
        yield Finding.warning(
            _STEP,
            BrokerUnavailableError(
                f"a partition of topic {name} has {facts.in_sync} of "
                f"{plural(facts.replicas, 'replica')} in sync, and "
                f"{MIN_IN_SYNC}={least}: its leader takes no batch with acks=all until more "
                "have caught up",
                topic=name,
                error=code,
                hint="See which brokers are down or behind",
            ),
        )


def _sizes(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    limit, producer = _number(facts, MAX_MESSAGE), config.producer
    if limit is None:
        return
    ratio = 1 if producer.compression_type is Codec.NONE else _LIKELY_RATIO
    largest = min(producer.max_request_size, producer.buffer_memory)
    refused = []
    if producer.batch_size > limit * ratio:
        refused.append(f"full batches (kafka.batch.size={producer.batch_size})")
    if largest > limit * ratio:
        refused.append(f"larger rows (kafka.max.request.size={largest})")
    if not refused:
        return
    hint = f"Raise {MAX_MESSAGE} of the topic, or set kafka.batch.size={limit}: refused batches "
    yield Finding.warning(
        _STEP,
        RecordTooLargeError(
            f"topic {facts.name} takes no more than {MAX_MESSAGE}={limit}: {' and '.join(refused)} "
            "would be refused",
            topic=facts.name,
            error=error_name(ErrorCode.message_too_large),
            hint=hint + "are divided and sent again, a single row is not",
        ),
    )


def _codec(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    theirs = _text(facts, COMPRESSION)
    wanted = None if theirs in {None, _PRODUCER} else _CODEC_NAMES.get(theirs or "")
    ours = config.producer.compression_type
    if wanted is None or wanted is ours:
        return
    error = ConfigError(
        f"topic {facts.name} has {COMPRESSION}={theirs}, and kafka.compression.type is "
        f"{ours.name.lower()}: the brokers compress every batch anew",
        topic=facts.name,
        hint=f"Set kafka.compression.type={wanted.name.lower()}",
    )
    yield Finding.warning(_STEP, error)


def _timestamps(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    if not config.use_timestamp_column:
        return
    before = _number(facts, TIMESTAMP_BEFORE)
    if _text(facts, TIMESTAMP_TYPE) == "LogAppendTime":
        error = ConfigError(
            f"topic {facts.name} has {TIMESTAMP_TYPE}=LogAppendTime: the brokers put their own "
            "time in place of the timestamp column's",
            topic=facts.name,
            hint=f"Set {TIMESTAMP_TYPE}=CreateTime on the topic, or leave useTimestampColumn out",
        )
        yield Finding.warning(_STEP, error)
    elif before is not None and before < _NO_LIMIT:
        yield Finding.warning(
            _STEP,
            ConfigError(
                f"topic {facts.name} has {TIMESTAMP_BEFORE}={before}: rows with an older timestamp "
                "are refused",
                topic=facts.name,
                error=error_name(ErrorCode.invalid_timestamp),
                hint=f"Raise {TIMESTAMP_BEFORE} of the topic, or leave useTimestampColumn out",
            ),
        )


def _compaction(facts: TopicFacts, config: SinkConfig, has_key: bool | None) -> Iterator[Finding]:
    policies = {each.strip() for each in (_text(facts, CLEANUP) or "").split(",")}
    if "compact" not in policies:
        return
    if has_key is not False:
        yield Finding.note(_STEP, f"{facts.name} is compacted: rows with a null key are refused")
        return
    error = ColumnError(
        f"topic {facts.name} is compacted, and the DataFrame has no column `key`: every row would "
        "be refused",
        topic=facts.name,
        error=error_name(ErrorCode.invalid_record),
        hint="Add a column `key`, or set cleanup.policy=delete on the topic",
    )
    if config.dead_letters.tolerant:
        yield Finding.warning(_STEP, error)
    else:
        yield Finding.failure(_STEP, error)


def _text(facts: TopicFacts, name: str) -> str | None:
    return None if facts.settings is None else facts.settings.get(name)


def _number(facts: TopicFacts, name: str) -> int | None:
    text = _text(facts, name)
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None
