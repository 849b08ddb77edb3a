"""Check that a topic exists with the expected partitions and leaders, and who may write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.text import capitalized, plural
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import AUTHORIZATION_FAILED, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER
from spark_kafka_sink.kafka.security.acl_commands import Acl, AclCommandBuilder
from spark_kafka_sink.kafka.security.acl_errors import denied_error

if TYPE_CHECKING:
    from spark_kafka_sink.config.client_config import ClientConfig
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.diagnostics.topic_facts import Creation, TopicFacts

_MAY_WRITE = 1 << AclOperation.WRITE | 1 << AclOperation.ALL
_MAY_WRITE_IDEMPOTENTLY = 1 << AclOperation.IDEMPOTENT_WRITE | 1 << AclOperation.ALL
"""Bits of authorized operations (KIP-430), of which one is enough."""


def check_permissions(facts: TopicFacts, config: ProducerConfig) -> Finding:
    """Check that this client may write to an existing topic.

    Since Kafka 2.8, Write on any topic is sufficient for an idempotent producer (KIP-679). Earlier
    brokers report the authorized operations on the cluster in Metadata; later brokers do not.
    """
    assert facts.description is not None
    name = facts.name
    acls = AclCommandBuilder.of(config)
    operations, of_cluster = facts.description.operations, facts.description.cluster_operations
    if not operations:  # If a broker reports operations, they include at least Describe.
        return Finding.note(
            CheckStep.PERMISSIONS, f"{name}: the brokers do not report permissions before Kafka 2.3"
        )
    if not operations & _MAY_WRITE:
        acl = Acl(AclOperation.WRITE, ResourceType.TOPIC, name)
        return denied(acl, ErrorCode.topic_authorization_failed, config)
    lacks_cluster = of_cluster is not None and not of_cluster & _MAY_WRITE_IDEMPOTENTLY
    if config.enable_idempotence and lacks_cluster:
        acl = Acl(AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        error = errors.AuthorizationError(
            f"IdempotentWrite on the cluster is denied to {acls.principal}, and these brokers "
            f"(before Kafka 2.8) assign producer ids only with this permission",
            kafka_error=error_name(ErrorCode.cluster_authorization_failed),
            hint=f"{capitalized(acls.grant_hint(acl))}, or set kafka.enable.idempotence=false.",
        )
        return Finding.failure(CheckStep.PERMISSIONS, error)
    return Finding.ok(
        CheckStep.PERMISSIONS, f"Write on topic {name} is allowed to {acls.principal}"
    )


def denied(acl: Acl, code: int, config: ClientConfig, broker: str | None = None) -> Finding:
    """Return the finding for a missing ACL, which a broker reported with this error code."""
    error = denied_error(config, None, code, acl, broker)
    return Finding.failure(CheckStep.PERMISSIONS, error)


def check_topic_facts(facts: TopicFacts, config: ProducerConfig) -> Finding:
    """Check that the topic exists or will be created, and that it has leaders."""
    code, name = facts.code, facts.name
    if facts.exists:
        return _check_leaders(facts)
    if facts.is_missing:
        return _check_missing_topic(facts, config)
    if code == ErrorCode.topic_authorization_failed:
        acls = AclCommandBuilder.of(config)
        acl = Acl(AclOperation.WRITE, ResourceType.TOPIC, name)
        error = errors.AuthorizationError(
            f"Describe on topic {name} is denied to {acls.principal}, so it is unknown whether it "
            "exists",
            topic=name,
            kafka_error=error_name(code),
            hint=capitalized(acls.grant_hint(acl)),
        )
        return Finding.failure(CheckStep.PERMISSIONS, error)
    rejected = errors.UnknownTopicError(
        f"the brokers did not describe topic {name}",
        topic=name,
        kafka_error=error_name(code),
        hint="Check that the cluster is healthy.",
    )
    if code == ErrorCode.invalid_topic_exception:
        return Finding.failure(CheckStep.TOPIC, rejected)
    return Finding.warning(CheckStep.TOPIC, rejected)


def check_partitions(facts: TopicFacts, expected: int | None) -> list[Finding]:
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
    return [Finding.warning(CheckStep.TOPIC, error)]


def missing_in_dry_run(facts: TopicFacts) -> Finding:
    """Return the finding for a missing topic, which a dry run does not create."""
    why = "a dry run needs its partition count"
    how = "topic.create=true and topic.partitions, which a dry run uses"
    hint = f"Correct the name, create the topic, or set {how}."
    if facts.of_dead_letters:
        why = "the first row for this topic fails the run"
        hint = "Correct the name, or create the topic."
    error = errors.UnknownTopicError(
        f"{facts.title} does not exist, and a dry run does not create it: {why}",
        topic=facts.name,
        kafka_error=error_name(ErrorCode.unknown_topic_or_partition),
        hint=hint,
    )
    return Finding.failure(CheckStep.TOPIC, error)


def _check_leaders(facts: TopicFacts) -> Finding:
    assert facts.description is not None
    partitions, name = facts.description.partitions, facts.name
    leaderless = [partition.index for partition in partitions if partition.leader == NO_LEADER]
    if leaderless:
        error = errors.BrokerUnavailableError(
            f"no leader for {len(leaderless)} of {plural(len(partitions), 'partition')} of topic "
            f"{name}, for example {leaderless[0]}",
            topic=name,
            kafka_error=error_name(ErrorCode.leader_not_available),
            hint="Check which brokers are down; records for these partitions wait up "
            "to kafka.delivery.timeout.ms.",
        )
        return Finding.warning(CheckStep.TOPIC, error)
    replicas = plural(facts.replicas, "replica")
    text = f"{name}: {plural(len(partitions), 'partition')}, {replicas}"
    return Finding.ok(CheckStep.TOPIC, text if facts.in_sync else name)


def _check_missing_topic(facts: TopicFacts, config: ProducerConfig) -> Finding:
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
        error = errors.UnknownTopicError(text, topic=name, kafka_error=absent, hint=create_hint)
        return Finding.failure(CheckStep.TOPIC, error)
    assert creation is not None
    if creation.code in AUTHORIZATION_FAILED:
        acls = AclCommandBuilder.of(config)
        unauthorized = errors.AuthorizationError(
            f"{facts.title} does not exist, and {acls.principal} is not authorized to create it",
            topic=name,
            kafka_error=error_name(creation.code),
            hint=f"{create_hint}, or "
            f"{acls.grant_hint(Acl(AclOperation.CREATE, ResourceType.TOPIC, name))}",
        )
        return Finding.failure(CheckStep.PERMISSIONS, unauthorized)
    if creation.code:
        rejected = errors.ConfigError(
            f"{facts.title} does not exist and cannot be created"
            + (f": {creation.message}" if creation.message else ""),
            topic=name,
            kafka_error=error_name(creation.code),
            hint=create_hint,
        )
        finding = Finding.failure if creation.by_sink else Finding.warning
        return finding(CheckStep.TOPIC, rejected)
    if creation.by_sink:
        return Finding.note(CheckStep.TOPIC, f"{name} does not exist yet: the write will create it")
    if creation.auto_create is None:
        text = f"{facts.title} does not exist, and it is unknown whether the brokers create it"
        error = errors.UnknownTopicError(text, topic=name, kafka_error=absent, hint=create_hint)
        return Finding.warning(CheckStep.TOPIC, error)
    return Finding.note(CheckStep.TOPIC, f"{name} does not exist yet: the brokers will create it")


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
