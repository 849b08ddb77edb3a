"""Check whether a topic exists and whether its settings fit the write.

The checks of settings detect if records would be rejected, recompressed, or stored with a different
timestamp.

Source: Kafka's ``TopicConfig``, ``UnifiedLog.append``, ``LogValidator``, ``Partition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.text import capitalized, plural
from spark_kafka_sink.config.enums import Acks, Codec
from spark_kafka_sink.diagnostics.finding import Finding, Step
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import AUTHORIZATION_FAILED, ErrorCode, error_name
from spark_kafka_sink.kafka.security.acl import Acl, AclGuide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
    from spark_kafka_sink.kafka.admin.topic_admin import TopicDescription


_MAY_WRITE: Final = 1 << AclOperation.WRITE | 1 << AclOperation.ALL
_MAY_WRITE_IDEMPOTENTLY: Final = 1 << AclOperation.IDEMPOTENT_WRITE | 1 << AclOperation.ALL
"""Bits of authorized operations (KIP-430), of which one is enough."""
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
"""The topic settings that affect a write."""
_PRODUCER: Final = "producer"
_CODEC_NAMES: Final = {"uncompressed": Codec.NONE} | {
    codec.name.lower(): codec for codec in Codec if codec is not Codec.NONE
}
_LIKELY_RATIO: Final = 4
"""Compression ratio that is assumed to check whether compressed batches fit. Higher ratios are
rare.
"""
_NO_LIMIT: Final = 2**62
_STEP: Final = Step.SETTINGS
NO_LEADER = -1
SMALL_BATCH = 32 * 1024
"""Batch size in bytes below which a write is slow."""


def judge_permissions(facts: TopicFacts, config: ProducerConfig) -> Finding:
    """Check that this client may write to an existing topic.

    Since Kafka 2.8, Write on any topic is sufficient for an idempotent producer (KIP-679). Earlier
    brokers report the authorized operations on the cluster in Metadata; later brokers do not.
    """
    assert facts.description is not None
    name, guide = facts.name, guide_of(config)
    operations, of_cluster = facts.description.operations, facts.description.cluster_operations
    if not operations:  # If a broker reports operations, they include at least Describe.
        return Finding.note(
            Step.PERMISSIONS, f"{name}: the brokers do not report permissions before Kafka 2.3"
        )
    if not operations & _MAY_WRITE:
        acl = Acl(AclOperation.WRITE, ResourceType.TOPIC, name)
        return denied(acl, ErrorCode.topic_authorization_failed, config)
    lacks_cluster = of_cluster is not None and not of_cluster & _MAY_WRITE_IDEMPOTENTLY
    if config.enable_idempotence and lacks_cluster:
        right = Acl(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        error = errors.AuthorizationError(
            f"IdempotentWrite on the cluster is denied to {guide.principal}, and these brokers "
            f"(before Kafka 2.8) assign producer ids only with this permission",
            error=error_name(ErrorCode.cluster_authorization_failed),
            hint=f"{capitalized(guide.grant(right))}, or set kafka.enable.idempotence=false.",
        )
        return Finding.failure(Step.PERMISSIONS, error)
    return Finding.ok(Step.PERMISSIONS, f"Write on topic {name} is allowed to {guide.principal}")


def judge_settings(facts: TopicFacts, config: SinkConfig, has_key: bool | None) -> list[Finding]:
    """Compare a topic's settings with the sink's settings.

    Args:
        facts: facts about an existing topic.
        config: the sink's config.
        has_key: True if the rows have a column `key`; None if unknown.

    Returns:
        The problems. If there are none, a single finding that lists the checked settings.
    """
    findings = [*_replicas(facts, config)]
    if facts.settings is None:
        text = f"{facts.name}: unknown, because DescribeConfigs on the topic is denied"
        return [*findings, Finding.note(_STEP, text)]
    findings += [
        *_sizes(facts, config),
        *_codec(facts, config),
        *_timestamps(facts, config),
        *_compaction(facts, config, has_key),
    ]
    if findings:
        return findings
    shown = (MAX_MESSAGE, MIN_IN_SYNC, COMPRESSION, CLEANUP)
    values = [f"{name}={facts.settings[name]}" for name in shown if facts.settings.get(name)]
    return [Finding.ok(_STEP, f"{facts.name}: {', '.join(values)}")]


def _replicas(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    least = _number(facts, MIN_IN_SYNC)
    if config.producer.acks is not Acks.ALL or least is None or not facts.replicas:
        return
    name, code = facts.name, error_name(ErrorCode.not_enough_replicas)
    if least > facts.replicas:
        have = f"a partition of topic {name} has {facts.replicas}"
        yield Finding.warning(
            _STEP,
            errors.ConfigError(
                f"{MIN_IN_SYNC}={least}, but {have}: most brokers reject every batch of such a "
                f"topic with acks=all; newer brokers only require that all replicas are in sync",
                topic=name,
                error=code,
                hint=f"Lower the topic's {MIN_IN_SYNC}, or add replicas to the topic.",
            ),
        )
    elif facts.in_sync < least:
        yield Finding.warning(
            _STEP,
            errors.BrokerUnavailableError(
                f"a partition of topic {name} has {facts.in_sync} of "
                f"{plural(facts.replicas, 'replica')} in sync, but "
                f"{MIN_IN_SYNC}={least}: its leader accepts no batches with acks=all until more "
                f"replicas have caught up",
                topic=name,
                error=code,
                hint="Check which brokers are down or lagging.",
            ),
        )


def _sizes(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    limit, producer = _number(facts, MAX_MESSAGE), config.producer
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
    hint = f"Raise the topic's {MAX_MESSAGE}, or set kafka.batch.size={limit}: rejected batches "
    yield Finding.warning(
        _STEP,
        errors.RecordTooLargeError(
            f"topic {facts.name} accepts at most {MAX_MESSAGE}={limit}: {' and '.join(rejected)} "
            "would be rejected",
            topic=facts.name,
            error=error_name(ErrorCode.message_too_large),
            hint=hint + "are split and sent again, but a single row cannot be split.",
        ),
    )


def _codec(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    theirs = _text(facts, COMPRESSION)
    codec = None if theirs in {None, _PRODUCER} else _CODEC_NAMES.get(theirs or "")
    ours = config.producer.compression_type
    if codec is None or codec is ours:
        return
    error = errors.ConfigError(
        f"topic {facts.name} has {COMPRESSION}={theirs}, but kafka.compression.type is "
        f"{ours.name.lower()}: the brokers recompress every batch",
        topic=facts.name,
        hint=f"Set kafka.compression.type={codec.name.lower()}.",
    )
    yield Finding.warning(_STEP, error)


def _timestamps(facts: TopicFacts, config: SinkConfig) -> Iterator[Finding]:
    if not config.use_timestamp_column:
        return
    before = _number(facts, TIMESTAMP_BEFORE)
    if _text(facts, TIMESTAMP_TYPE) == "LogAppendTime":
        error = errors.ConfigError(
            f"topic {facts.name} has {TIMESTAMP_TYPE}=LogAppendTime: the brokers replace the "
            "timestamp column with their own time",
            topic=facts.name,
            hint=f"Set {TIMESTAMP_TYPE}=CreateTime on the topic, or remove useTimestampColumn.",
        )
        yield Finding.warning(_STEP, error)
    elif before is not None and before < _NO_LIMIT:
        yield Finding.warning(
            _STEP,
            errors.ConfigError(
                f"topic {facts.name} has {TIMESTAMP_BEFORE}={before}: rows with an older timestamp "
                "are rejected",
                topic=facts.name,
                error=error_name(ErrorCode.invalid_timestamp),
                hint=f"Raise the topic's {TIMESTAMP_BEFORE}, or remove useTimestampColumn.",
            ),
        )


def _compaction(facts: TopicFacts, config: SinkConfig, has_key: bool | None) -> Iterator[Finding]:
    policies = {policy.strip() for policy in (_text(facts, CLEANUP) or "").split(",")}
    if "compact" not in policies:
        return
    if has_key is not False:
        yield Finding.note(_STEP, f"{facts.name} is compacted: rows with a null key are rejected")
        return
    error = errors.ColumnError(
        f"topic {facts.name} is compacted, but the DataFrame has no column `key`: every row "
        "would be rejected",
        topic=facts.name,
        error=error_name(ErrorCode.invalid_record),
        hint="Add a column `key`, or set cleanup.policy=delete on the topic.",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """The expected result of creating a topic.

    `by_sink` is True if the driver creates the topic before any task (topic.create=true).
    `auto_create` is the brokers' auto.create.topics.enable, or None if this client is not allowed
    to read it. `code` and `message` are the response to a CreateTopics request with validate_only.
    """

    by_sink: bool = False
    auto_create: bool | None = None
    code: int = 0
    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """The facts known about one topic.

    `description` is set if `code` is 0, `settings` if this client is allowed to read them, and
    `creation` if the topic does not exist and might be created. `of_dead_letters` is True for the
    dead letter topic. For a missing topic, `similar` contains existing topics with similar names.
    """

    name: str
    code: int = 0
    description: TopicDescription | None = None
    settings: Mapping[str, str | None] | None = None
    creation: Creation | None = None
    of_dead_letters: bool = False
    similar: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The topic's description for use within a sentence."""
        return f"dead letter topic {self.name}" if self.of_dead_letters else f"topic {self.name}"

    @property
    def exists(self) -> bool:
        """True if the topic exists and this client may describe it."""
        return not self.code and self.description is not None

    @property
    def is_missing(self) -> bool:
        """True if the topic does not exist."""
        return self.code == ErrorCode.unknown_topic_or_partition

    @property
    def replicas(self) -> int:
        """Smallest number of replicas of any partition; 0 if unknown."""
        partitions = self.description.partitions if self.description else ()
        return min((len(partition.replicas) for partition in partitions), default=0)

    @property
    def in_sync(self) -> int:
        """Smallest number of in-sync replicas of any partition; 0 if unknown."""
        partitions = self.description.partitions if self.description else ()
        return min((len(partition.in_sync) for partition in partitions), default=0)


def guide_of(config: ProducerConfig) -> AclGuide:
    """Return an `AclGuide` for this client's principal."""
    return AclGuide(config.security, config.bootstrap_servers[0])


def denied(acl: Acl, code: int, config: ProducerConfig, broker: str | None = None) -> Finding:
    """Return the finding for a missing ACL, which a broker reported with this error code."""
    guide = guide_of(config)
    error = errors.AuthorizationError(
        f"{acl} is denied to {guide.principal}",
        topic=acl.name if acl.resource is ResourceType.TOPIC else None,
        broker=broker,
        error=error_name(code),
        hint=capitalized(guide.grant(acl)),
    )
    return Finding.failure(Step.PERMISSIONS, error)


def judge_topic(facts: TopicFacts, config: ProducerConfig) -> Finding:
    """Check that the topic exists or will be created, and that it has leaders."""
    code, name = facts.code, facts.name
    if facts.exists:
        return _leaders(facts)
    if facts.is_missing:
        return _missing(facts, config)
    if code == ErrorCode.topic_authorization_failed:
        guide = guide_of(config)
        acl = Acl(AclOperation.WRITE, ResourceType.TOPIC, name)
        error = errors.AuthorizationError(
            f"Describe on topic {name} is denied to {guide.principal}, so it is unknown whether it "
            "exists",
            topic=name,
            error=error_name(code),
            hint=capitalized(guide.grant(acl)),
        )
        return Finding.failure(Step.PERMISSIONS, error)
    refused = errors.UnknownTopicError(
        f"the brokers did not describe topic {name}",
        topic=name,
        error=error_name(code),
        hint="Check that the cluster is healthy.",
    )
    if code == ErrorCode.invalid_topic_exception:
        return Finding.failure(Step.TOPIC, refused)
    return Finding.warning(Step.TOPIC, refused)


def judge_partitions(facts: TopicFacts, expected: int | None) -> list[Finding]:
    """Warn if an existing topic does not have the number of partitions in topic.partitions."""
    existing = 0 if facts.description is None else len(facts.description.partitions)
    if not facts.exists or expected in {None, existing}:
        return []
    error = errors.ConfigError(
        f"topic {facts.name} already exists with {plural(existing, 'partition')} and is not "
        f"changed: topic.partitions={expected} has no effect",
        topic=facts.name,
        hint=f"Set topic.partitions={existing} or remove it, or add partitions with kafka-topics "
        "--alter --partitions.",
    )
    return [Finding.warning(Step.TOPIC, error)]


def judge_buffer(facts: TopicFacts, config: ProducerConfig, has_key: bool | None) -> list[Finding]:
    """Check that buffer.memory can hold a full batch of each partition.

    Rows with keys can open a batch for every partition at the same time.

    Args:
        facts: facts about an existing topic.
        config: the producer's config.
        has_key: True if the rows have a column `key`; None if unknown.
    """
    count = 0 if facts.description is None else len(facts.description.partitions)
    needed, memory = count * config.batch_size, config.buffer_memory
    if has_key is False or needed <= memory:
        return []
    text = (
        f"{facts.name}: a full batch.size of each of {count:,} partitions is {needed:,} bytes, and "
        f"kafka.buffer.memory={memory}: if keys distribute the rows over all partitions, batches "
        f"are sent at about {memory // count:,} bytes"
    )
    if memory // count >= SMALL_BATCH:
        return [Finding.note(Step.TOPIC, text)]
    hint = f"Raise kafka.buffer.memory to {SMALL_BATCH * count} or more"
    return [Finding.warning(Step.TOPIC, errors.ConfigError(text, topic=facts.name, hint=hint))]


def missing_in_dry_run(facts: TopicFacts) -> Finding:
    """Return the finding for a missing topic, which a dry run does not create."""
    why = "a dry run needs its partition count"
    how = "topic.create=true and topic.partitions, which a dry run uses"
    hint = f"correct the name, create the topic, or set {how}"
    if facts.of_dead_letters:
        why = "the first row for this topic fails the run"
        hint = "correct the name, or create the topic"
    error = errors.UnknownTopicError(
        f"{facts.title} does not exist, and a dry run does not create it: {why}",
        topic=facts.name,
        error=error_name(ErrorCode.unknown_topic_or_partition),
        hint=hint,
    )
    return Finding.failure(Step.TOPIC, error)


def _leaders(facts: TopicFacts) -> Finding:
    assert facts.description is not None
    partitions, name = facts.description.partitions, facts.name
    leaderless = [partition.index for partition in partitions if partition.leader == NO_LEADER]
    if leaderless:
        error = errors.BrokerUnavailableError(
            f"no leader for {len(leaderless)} of {plural(len(partitions), 'partition')} of topic "
            f"{name}, for example {leaderless[0]}",
            topic=name,
            error=error_name(ErrorCode.leader_not_available),
            hint="Check which brokers are down; records for these partitions wait up "
            "to kafka.delivery.timeout.ms.",
        )
        return Finding.warning(Step.TOPIC, error)
    replicas = plural(facts.replicas, "replica")
    text = f"{name}: {plural(len(partitions), 'partition')}, {replicas}"
    return Finding.ok(Step.TOPIC, text if facts.in_sync else name)


def _missing(facts: TopicFacts, config: ProducerConfig) -> Finding:
    name, creation = facts.name, facts.creation
    absent = error_name(ErrorCode.unknown_topic_or_partition)
    create_hint = _creation_hint(facts, config)
    why = None
    if creation is None:
        why = "kafka.allow.auto.create.topics is false"
    elif creation.auto_create is False and not creation.by_sink:
        why = "the brokers do not create topics (auto.create.topics.enable=false)"
    if why is not None:
        text = f"{facts.title} does not exist, and {why}"
        error = errors.UnknownTopicError(text, topic=name, error=absent, hint=create_hint)
        return Finding.failure(Step.TOPIC, error)
    assert creation is not None
    if creation.code in AUTHORIZATION_FAILED:
        guide = guide_of(config)
        denied = errors.AuthorizationError(
            f"{facts.title} does not exist, and {guide.principal} is not authorized to create it",
            topic=name,
            error=error_name(creation.code),
            hint=f"{create_hint}, or "
            f"{guide.grant(Acl(AclOperation.CREATE, ResourceType.TOPIC, name))}",
        )
        return Finding.failure(Step.PERMISSIONS, denied)
    if creation.code:
        refused = errors.ConfigError(
            f"{facts.title} does not exist and cannot be created"
            + (f": {creation.message}" if creation.message else ""),
            topic=name,
            error=error_name(creation.code),
            hint=create_hint,
        )
        finding = Finding.failure if creation.by_sink else Finding.warning
        return finding(Step.TOPIC, refused)
    if creation.by_sink:
        return Finding.note(Step.TOPIC, f"{name} does not exist yet: the write will create it")
    if creation.auto_create is None:
        text = f"{facts.title} does not exist, and it is unknown whether the brokers create it"
        error = errors.UnknownTopicError(text, topic=name, error=absent, hint=create_hint)
        return Finding.warning(Step.TOPIC, error)
    return Finding.note(Step.TOPIC, f"{name} does not exist yet: the brokers will create it")


def _creation_hint(facts: TopicFacts, config: ProducerConfig) -> str:
    server, name = config.bootstrap_servers[0], facts.name
    option = '.option("topic.create", "true"), or ' if _would_create(facts.creation) else ""
    create = f"create the topic: {option}kafka-topics --bootstrap-server {server} --create --topic"
    if not facts.similar:
        return f"Correct the name, or {create} {name}"
    return f"Did you mean {' or '.join(facts.similar)}? Otherwise {create} {name}"


def _would_create(creation: Creation | None) -> bool:
    """Return True if topic.create is not set, and setting it would create the topic."""
    if creation is None:
        return True
    return not creation.by_sink and creation.code not in AUTHORIZATION_FAILED
