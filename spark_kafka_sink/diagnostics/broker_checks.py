"""Check the connection, topics and transactional ids of a write, with a deadline for each query."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.similar_names import similar
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.diagnostics import connection_checks, topic_checks, topic_settings
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.diagnostics.topic_facts import Creation, TopicFacts
from spark_kafka_sink.kafka.admin import topic_handlers
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.blocking.api_driver import ApiDriver
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer, TransactionVersion
from spark_kafka_sink.kafka.security.acl_commands import Acl, principal_of
from spark_kafka_sink.producer.topic_creator import topics_to_create

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.config.sink_config import SinkConfig
    from spark_kafka_sink.diagnostics.planned_write import PlannedWrite
    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient

_AUTO_CREATE = "auto.create.topics.enable"
_MAX_POLL_S = 1.0
_PROPAGATION_S = 1.0
"""Seconds until a missing topic is looked up again, because a new topic takes time to propagate."""
_UNUSED_ID = "kafkaprod-doctor"
"""Suffix after the prefix in an unused transactional id. No scope has this name."""
_AUTHORIZED_CODES = frozenset({ErrorCode.none, ErrorCode.invalid_producer_id_mapping})


def connect(
    client: BlockingClient, seconds: float, refused_s: float | None = None
) -> Finding | None:
    """Wait for metadata from a bootstrap server. Return None on success, or the failure.

    Args:
        client: a client that has not been used before.
        seconds: time limit in seconds.
        refused_s: time limit in seconds if all servers refused the connection; None to use
            `seconds`.
    """
    deadline = client.deadline(seconds)
    early = deadline if refused_s is None else client.deadline(min(refused_s, seconds))
    try:
        while not client.metadata.answered_requests:
            now = client.now()
            if now >= deadline or (now >= early and _all_refuse(client)):
                return _unreachable_finding(client, seconds)
            remaining_s = (early if now < early else deadline) - now
            client.run_once(min(remaining_s, _MAX_POLL_S))
    except errors.KafkaProdError as error:
        tried = error.broker and client.failures.diagnosis(error.broker)
        if tried:
            return connection_checks.connection_finding(str(error.broker), tried)
        return Finding.failure(connection_checks.step_of_error(error), error, is_local=True)
    return None


def _all_refuse(client: BlockingClient) -> bool:
    """Return True if each bootstrap server was tried and failed with an error, not a timeout."""
    tried = [client.failures.diagnosis(server) for server in client.config.bootstrap_servers]
    return all(attempt is not None and not attempt.is_unanswered for attempt in tried)


def _unreachable_finding(client: BlockingClient, seconds: float) -> Finding:
    servers = client.config.bootstrap_servers
    under_way = {
        str(broker.node): connection_checks.no_response(broker.state, seconds)
        for broker in client.brokers()
    }
    findings = []
    for server in servers:
        diagnosis = client.failures.diagnosis(server) or under_way.get(server)
        if diagnosis is not None:
            findings.append(connection_checks.connection_finding(server, diagnosis))
    return connection_checks.unreachable_finding(findings, len(servers))


def check_topics(client: BlockingClient, write: PlannedWrite, seconds: float) -> list[Finding]:
    """Check that the known topics exist and accept the planned write."""
    topics = write.topics
    if not topics:
        return []
    deadline = client.deadline(seconds)
    try:
        facts = _query_topics(client, write, topics, deadline)
        if any(_is_missing_for_write(topic, write) for topic in facts):
            client.pause(_PROPAGATION_S, None)
            facts = _with_similar(client, _query_topics(client, write, topics, deadline), deadline)
    except errors.KafkaProdError as error:
        return [Finding.warning(connection_checks.step_of_error(error), error, is_local=True)]
    return [finding for topic in facts for finding in _findings_of(topic, write)]


def _is_missing_for_write(facts: TopicFacts, write: PlannedWrite) -> bool:
    """Return True if the topic is missing and the write would not create it."""
    if not facts.is_missing:
        return False
    return any(finding.severity is Severity.ERROR for finding in _findings_of(facts, write))


def _with_similar(
    client: BlockingClient, facts: list[TopicFacts], deadline: float
) -> list[TopicFacts]:
    """Add the names of similar existing topics to the facts of missing topics."""
    if not any(topic.is_missing for topic in facts):
        return facts
    try:
        names = TopicAdmin(client).names(deadline)
    except errors.BrokerUnavailableError:
        return facts
    return [
        replace(topic, similar=similar(topic.name, names)) if topic.is_missing else topic
        for topic in facts
    ]


def _findings_of(facts: TopicFacts, write: PlannedWrite) -> list[Finding]:
    producer = write.config.producer
    if (
        facts.is_missing
        and write.config.dry_run
        and facts.name not in dict(write.config.assumed_topics)
    ):
        return [topic_checks.missing_in_dry_run(facts)]
    findings = [topic_checks.check_topic_facts(facts, producer)]
    if facts.name == write.config.topic:
        findings += topic_checks.check_partitions(facts, write.config.topic_creation.partitions)
        findings += topic_settings.check_buffer(facts, producer, write.has_key)
    if facts.exists:
        findings += topic_settings.check_settings(facts, write.config, write.has_key)
        findings.append(topic_checks.check_permissions(facts, producer))
    return findings


def _query_topics(
    client: BlockingClient, write: PlannedWrite, topics: Sequence[str], deadline: float
) -> list[TopicFacts]:
    """Query the descriptions and the settings of topics concurrently."""
    described = ApiDriver(client, topic_handlers.DescribeTopicsHandler(operations=True), topics)
    handler: topic_handlers.DescribeConfigsHandler[str] = topic_handlers.DescribeConfigsHandler(
        ConfigResourceType.TOPIC
    )
    configs = ApiDriver(client, handler, topics)
    described.step(client.now())
    if not configs.run(deadline) or not described.run(deadline):
        raise client.unavailable_error("describing the topics", described.latest_code)
    all_facts = []
    created_by_sink = {topic.name: topic for topic in topics_to_create(write.config)}
    for name in topics:
        by_sink = created_by_sink.get(name)
        topic, settings = described.results[name], configs.results[name]
        missing = topic.code == ErrorCode.unknown_topic_or_partition
        may_be_created = by_sink is not None or write.config.producer.allow_auto_create_topics
        all_facts.append(
            TopicFacts(
                name=name,
                code=topic.code,
                description=topic.value,
                settings=settings.value,
                of_dead_letters=name == write.config.dead_letters.dead_letter_topic,
                creation=(
                    _query_creation(client, name, by_sink, deadline)
                    if missing and may_be_created
                    else None
                ),
            )
        )
    return all_facts


def _query_creation(
    client: BlockingClient, name: str, by_sink: topic_handlers.NewTopic | None, deadline: float
) -> Creation:
    """Return what the brokers would do to create a topic, without creating it."""
    topic = by_sink or topic_handlers.NewTopic(name=name, partitions=None)
    value = TopicAdmin(client).broker_config(_AUTO_CREATE, deadline)
    auto_create = None if value is None else value == "true"
    handler = topic_handlers.CreateTopicsHandler([topic], validate_only=True)
    driver = ApiDriver(client, handler, (name,))
    if not driver.run(deadline):
        return Creation(by_sink=by_sink is not None, auto_create=auto_create)
    result = driver.results[name]
    code = 0 if result.code == ErrorCode.topic_already_exists else result.code
    return Creation(
        by_sink=by_sink is not None, auto_create=auto_create, code=code, message=result.message
    )


def check_transactional_ids(
    client: BlockingClient, config: SinkConfig, seconds: float
) -> list[Finding]:
    """Check that the client may use transactional ids with the prefix, as exactly-once requires.

    Brokers do not report the authorized operations on transactional ids as they do for topics
    (KIP-430). Instead, the check asks the coordinator of an unused id to abort a transaction. The
    coordinator checks the authorization first, and there is nothing to abort. Unlike
    InitProducerId, this leaves no state on the brokers.

    Source: ``KafkaApis.handleEndTxnRequest``, ``TransactionCoordinator.endTransaction``.

    Returns:
        A finding if the write is exactly-once and the result is conclusive.
    """
    from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin  # rarely needed

    exactly_once = config.exactly_once
    if not exactly_once.is_enabled or config.dry_run:
        return []
    prefix = acl_prefix(exactly_once.transactional_id_prefix)
    name = f"{prefix}{_UNUSED_ID}"
    deadline = client.deadline(seconds)
    nobody = TransactionalProducer(
        transactional_id=name, producer_id=0, epoch=0, version=TransactionVersion.V1
    )
    try:
        code = TransactionAdmin(client).end([nobody], commit=False, deadline=deadline)[name]
    except errors.KafkaProdError as error:
        return [Finding.warning(connection_checks.step_of_error(error), error, is_local=True)]
    acl = Acl(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, prefix, prefixed=True)
    if code in _AUTHORIZED_CODES:
        principal = principal_of(config.producer.security)
        return [Finding.ok(CheckStep.PERMISSIONS, f"{acl} is allowed to {principal}")]
    if code == ErrorCode.coordinator_not_available:
        missing = client.unavailable_error("finding a transaction coordinator", code)
        return [Finding.warning(CheckStep.BROKERS, missing)]
    if code != ErrorCode.transactional_id_authorization_failed:
        return []
    return [topic_checks.denied(acl, code, config.producer)]
