"""Check that the settings of a topic fit the write.

The checks detect if records would be rejected, recompressed, or stored with a different timestamp.

Source: Kafka's ``TopicConfig``, ``UnifiedLog.append``, ``LogValidator``, ``Partition``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.enums import Acks, Codec
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding
from spark_kafka_sink.kafka.admin.topic_admin import CLEANUP
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.report.advice.pipeline_facts import SMALL_BATCH_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
    from spark_kafka_sink.diagnostics.topic_facts import TopicFacts

_MAX_MESSAGE = "max.message.bytes"
_MIN_IN_SYNC = "min.insync.replicas"
_COMPRESSION = "compression.type"
_TIMESTAMP_TYPE = "message.timestamp.type"
_TIMESTAMP_BEFORE = "message.timestamp.before.max.ms"
_SETTINGS = (
    _MAX_MESSAGE,
    _MIN_IN_SYNC,
    _COMPRESSION,
    _TIMESTAMP_TYPE,
    _TIMESTAMP_BEFORE,
    CLEANUP,
)
"""The topic settings that affect a write."""
_PRODUCER = "producer"
_CODEC_NAMES = {"uncompressed": Codec.NONE} | {
    codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE
}
_LIKELY_RATIO = 4
"""Compression ratio that is assumed to check whether compressed batches fit. Higher ratios are
rare.
"""
_NO_LIMIT = 2**62
_STEP = CheckStep.SETTINGS


def check_settings(facts: TopicFacts, config: SinkConfig, has_key: bool | None) -> list[Finding]:
    """Compare a topic's settings with the sink's settings.

    Args:
        facts: facts about an existing topic.
        config: the sink's config.
        has_key: True if the rows have a column `key`; None if unknown.

    Returns:
        The problems. If there are none, a single finding that lists the checked settings.
    """
    findings = [*_check_min_in_sync(facts, config)]
    if facts.settings is None:
        text = f"{facts.name}: unknown, because DescribeConfigs on the topic is denied"
        return [*findings, Finding.note(_STEP, text)]
    findings += [
        *_check_size_limits(facts, config),
        *_check_codec(facts, config),
        *_check_timestamps(facts, config),
        *_check_compaction(facts, config, has_key),
    ]
    if findings:
        return findings
    names = (_MAX_MESSAGE, _MIN_IN_SYNC, _COMPRESSION, CLEANUP)
    values = [f"{name}={facts.settings[name]}" for name in names if facts.settings.get(name)]
    return [Finding.ok(_STEP, f"{facts.name}: {', '.join(values)}")]


def _check_min_in_sync(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    min_in_sync = _number_setting(facts, _MIN_IN_SYNC)
    if config.producer.acks is not Acks.ALL or min_in_sync is None or not facts.replicas:
        return
    name = facts.name
    code = error_name(ErrorCode.not_enough_replicas)
    if min_in_sync > facts.replicas:
        have = f"a partition of topic {name} has {facts.replicas}"
        yield Finding.warning(
            _STEP,
            errors.ConfigError(
                f"{_MIN_IN_SYNC}={min_in_sync}, but {have}: most brokers reject every batch of "
                "such a topic with acks=all; newer brokers only require that all replicas are in "
                "sync",
                topic=name,
                kafka_error=code,
                hint=f"Lower the topic's {_MIN_IN_SYNC}, or add replicas to the topic.",
            ),
        )
    elif facts.in_sync < min_in_sync:
        yield Finding.warning(
            _STEP,
            errors.BrokerUnavailableError(
                f"a partition of topic {name} has {facts.in_sync} of "
                f"{plural(facts.replicas, 'replica')} in sync, but {_MIN_IN_SYNC}={min_in_sync}: "
                "its leader accepts no batches with acks=all until more replicas have caught up",
                topic=name,
                kafka_error=code,
                hint="Check which brokers are down or lagging.",
            ),
        )


def _check_size_limits(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    limit = _number_setting(facts, _MAX_MESSAGE)
    producer = config.producer
    if limit is None:
        return
    ratio = 1 if producer.compression_type is Codec.NONE else _LIKELY_RATIO
    largest = min(producer.max_request_size, producer.buffer_memory)
    rejected = []
    if producer.batch_size > limit * ratio:
        rejected.append(f"full batches (kafka.batch.size={producer.batch_size})")
    if largest > limit * ratio:
        rejected.append(f"larger rows (kafka.max.request.size={largest})")
    if not rejected:
        return
    hint = f"Raise the topic's {_MAX_MESSAGE}, or set kafka.batch.size={limit}: rejected batches "
    yield Finding.warning(
        _STEP,
        errors.RecordTooLargeError(
            f"topic {facts.name} accepts at most {_MAX_MESSAGE}={limit}: {' and '.join(rejected)} "
            "would be rejected",
            topic=facts.name,
            kafka_error=error_name(ErrorCode.message_too_large),
            hint=hint + "are split and sent again, but a single row cannot be split.",
        ),
    )


def _check_codec(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    theirs = _setting(facts, _COMPRESSION)
    codec = None if theirs in {None, _PRODUCER} else _CODEC_NAMES.get(theirs or "")
    ours = config.producer.compression_type
    if codec is None or codec is ours:
        return
    error = errors.ConfigError(
        f"topic {facts.name} has {_COMPRESSION}={theirs}, but kafka.compression.type is "
        f"{ours.name.lower()}: the brokers recompress every batch",
        topic=facts.name,
        hint=f"Set kafka.compression.type={codec.name.lower()}.",
    )
    yield Finding.warning(_STEP, error)


def _check_timestamps(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    if not config.use_timestamp_column:
        return
    before = _number_setting(facts, _TIMESTAMP_BEFORE)
    if _setting(facts, _TIMESTAMP_TYPE) == "LogAppendTime":
        error = errors.ConfigError(
            f"topic {facts.name} has {_TIMESTAMP_TYPE}=LogAppendTime: the brokers replace the "
            "timestamp column with their own time",
            topic=facts.name,
            hint=f"Set {_TIMESTAMP_TYPE}=CreateTime on the topic, or remove useTimestampColumn.",
        )
        yield Finding.warning(_STEP, error)
    elif before is not None and before < _NO_LIMIT:
        yield Finding.warning(
            _STEP,
            errors.ConfigError(
                f"topic {facts.name} has {_TIMESTAMP_BEFORE}={before}: rows with an older "
                "timestamp are rejected",
                topic=facts.name,
                kafka_error=error_name(ErrorCode.invalid_timestamp),
                hint=f"Raise the topic's {_TIMESTAMP_BEFORE}, or remove useTimestampColumn.",
            ),
        )


def _check_compaction(
    facts: TopicFacts, config: SinkConfig, has_key: bool | None
) -> Iterator[Finding]:
    policies = {policy.strip() for policy in (_setting(facts, CLEANUP) or "").split(",")}
    if "compact" not in policies:
        return
    if has_key is not False:
        yield Finding.note(_STEP, f"{facts.name} is compacted: rows with a null key are rejected")
        return
    error = errors.ColumnError(
        f"topic {facts.name} is compacted, but the DataFrame has no column `key`: every row "
        "would be rejected",
        topic=facts.name,
        kafka_error=error_name(ErrorCode.invalid_record),
        hint="Add a column `key`, or set cleanup.policy=delete on the topic.",
    )
    if config.dead_letters.is_tolerant:
        yield Finding.warning(_STEP, error)
    else:
        yield Finding.failure(_STEP, error)


def _setting(facts: TopicFacts, name: str) -> str | None:
    return None if facts.settings is None else facts.settings.get(name)


def _number_setting(facts: TopicFacts, name: str) -> int | None:
    text = _setting(facts, name)
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def check_buffer(facts: TopicFacts, config: ProducerConfig, has_key: bool | None) -> list[Finding]:
    """Check that buffer.memory can hold a full batch of each partition.

    Rows with keys can open a batch for every partition at the same time.

    Args:
        facts: facts about an existing topic.
        config: the producer's config.
        has_key: True if the rows have a column `key`; None if unknown.
    """
    count = 0 if facts.description is None else len(facts.description.partitions)
    needed = count * config.batch_size
    memory = config.buffer_memory
    if has_key is False or needed <= memory:
        return []
    text = (
        f"{facts.name}: a full batch.size of each of {count:,} partitions is {needed:,} bytes, and "
        f"kafka.buffer.memory={memory}: if keys distribute the rows over all partitions, batches "
        f"are sent at about {memory // count:,} bytes"
    )
    if memory // count >= SMALL_BATCH_BYTES:
        return [Finding.note(CheckStep.TOPIC, text)]
    hint = f"Raise kafka.buffer.memory to {SMALL_BATCH_BYTES * count} or more."
    return [Finding.warning(CheckStep.TOPIC, errors.ConfigError(text, topic=facts.name, hint=hint))]
