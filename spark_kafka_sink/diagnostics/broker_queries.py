"""Query brokers for the data of the checks, with a deadline for each query."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from threading import get_ident
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.similar_names import similar
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.exactly_once import acl_prefix
from spark_kafka_sink.diagnostics import topics as topic_checks
from spark_kafka_sink.diagnostics.finding import Finding, Severity, Step
from spark_kafka_sink.kafka.admin import topic_admin
from spark_kafka_sink.kafka.admin.api_driver import ApiDriver
from spark_kafka_sink.kafka.client.channel.connection_failures import Diagnosis, FailureKind
from spark_kafka_sink.kafka.client.channel.transport import State
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.transactions import OpenTransaction, TransactionVersion
from spark_kafka_sink.kafka.security.acl import Acl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spark_kafka_sink.config.model import SinkConfig
    from spark_kafka_sink.kafka.admin.blocking_client import BlockingClient

STEP_OF: Mapping[State, Step] = {
    State.DISCONNECTED: Step.CONNECT,
    State.LOADING_STORES: Step.TLS,
    State.RESOLVING: Step.RESOLVE,
    State.CONNECTING: Step.CONNECT,
    State.TLS_HANDSHAKE: Step.TLS,
    State.NEGOTIATING: Step.VERSIONS,
    State.SASL_HANDSHAKE: Step.LOGIN,
    State.AUTHENTICATING: Step.LOGIN,
    State.READY: Step.METADATA,
    State.DRAINING: Step.LOGIN,
}
"""The step in which a connection failed, by the state of the connection."""
_HINTS: Mapping[Step, str] = {
    Step.RESOLVE: "Check the name in kafka.bootstrap.servers, and that this host can resolve it.",
    Step.CONNECT: "Check the host and port, that the broker is running, and that no firewall "
    "blocks the connection.",
    Step.TLS: "Check that this port is a TLS listener (kafka.security.protocol).",
    Step.VERSIONS: "Check kafka.security.protocol, and that a Kafka broker uses this port.",
    Step.LOGIN: "Check kafka.sasl.mechanism and the broker's log.",
    Step.METADATA: "Check the broker's log.",
}
_AUTO_CREATE: Final = "auto.create.topics.enable"
_MAX_POLL_S: Final = 1.0
_PROPAGATION_S: Final = 1.0
"""Seconds until a missing topic is looked up again, because a new topic takes time to propagate."""
_UNUSED_ID: Final = "kafkaprod-doctor"
"""Suffix after the prefix in an unused transactional id. No scope has this name."""
_ALLOWED: Final = frozenset({ErrorCode.none, ErrorCode.invalid_producer_id_mapping})


@contextmanager
def quiet_log(name: str) -> Iterator[None]:
    """Drop what this thread logs with a logger and its children; other threads are unaffected."""
    own = get_ident()

    def is_of_other_thread(record: logging.LogRecord) -> bool:
        return record.thread != own

    # Python does not pass the records of child loggers to the filters of their parents.
    loggers = [
        logger
        for key, logger in list(logging.Logger.manager.loggerDict.items())
        if isinstance(logger, logging.Logger) and f"{key}.".startswith(f"{name}.")
    ]
    for logger in loggers:
        logger.addFilter(is_of_other_thread)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_of_other_thread)


def step_of_error(error: errors.KafkaProdError) -> Step:
    """Return the step for a client error whose connection state is unknown."""
    if isinstance(error, errors.TlsError):
        return Step.TLS
    if isinstance(error, errors.AuthenticationError):
        return Step.LOGIN
    return Step.VERSIONS if isinstance(error, errors.ProtocolError) else Step.CONNECT


def passed_before(step: Step) -> tuple[Step, ...]:
    """Return the steps of a connection that passed before `step` failed, in order."""
    steps = (Step.RESOLVE, Step.CONNECT, Step.TLS, Step.VERSIONS, Step.LOGIN)
    return steps[: steps.index(step)] if step in steps else steps


def no_response(state: State, seconds: float) -> Diagnosis:
    """Return the diagnosis of a connection attempt that timed out."""
    return Diagnosis(f"no response within {seconds:g} s", state=state, unanswered=True)


def judge_connection(server: str, diagnosis: Diagnosis) -> Finding:
    """Return the finding for a failed connection attempt."""
    error = diagnosis.error
    step = STEP_OF[diagnosis.state]
    if isinstance(error, errors.AuthenticationError) and step is Step.METADATA:
        step = Step.LOGIN  # The listener requires SASL, but the client sent a different request.
    if error is None:
        error = errors.BrokerUnavailableError(f"{server}: {diagnosis.reason}", hint=_HINTS[step])
    return Finding.failure(step, error, local=not _is_refused(diagnosis))


def _is_refused(diagnosis: Diagnosis) -> bool:
    """Return True if a broker rejected the client for a reason that is the same on every host.

    In contrast, trust in a certificate and the availability of a ticket or token can depend on the
    host.
    """
    error = diagnosis.error
    if diagnosis.verdict is not FailureKind.REJECTED or error is None:
        return False
    return error.error is not None or isinstance(error, errors.BrokerUnavailableError)


def judge_unreachable(findings: list[Finding], servers: int) -> Finding:
    """Return one finding for all bootstrap servers if none of them could be reached.

    The finding is `local` if a server did not respond at all, or if no server was tried.

    Args:
        findings: one finding for each server that was tried.
        servers: number of bootstrap servers.
    """
    if not findings:
        return Finding.failure(
            Step.CONNECT,
            errors.BrokerUnavailableError(
                "no bootstrap server responded", hint=_HINTS[Step.CONNECT]
            ),
            local=True,
        )
    first, local = findings[0], any(finding.local for finding in findings)
    if len(findings) == 1 and first.error is not None:
        error = copy(first.error)
    else:
        reasons = "; ".join(finding.text for finding in findings)
        error = errors.BrokerUnavailableError(
            f"none of {plural(servers, 'bootstrap server')} can be used: {reasons}",
            hint=_HINTS[first.step],
        )
    return Finding.failure(first.step, error, local=local)


def judge_brokers(failures: Mapping[str, Finding], brokers: int) -> Finding:
    """Return the finding for the brokers' advertised addresses, to which tasks connect.

    Args:
        failures: findings of the unreachable brokers, by a name such as "broker 1".
        brokers: number of brokers.
    """
    if not failures:
        which = "it" if brokers == 1 else f"each of {brokers}"
        return Finding.ok(Step.BROKERS, f"{which} can be reached at its advertised address")
    details = "; ".join(f"{name}: {finding.text}" for name, finding in failures.items())
    error = errors.BrokerUnavailableError(
        f"{len(failures)} of {plural(brokers, 'broker')} cannot be reached at the advertised "
        f"{'address' if len(failures) == 1 else 'addresses'}. {details}",
        hint="Set advertised.listeners on the brokers to addresses that clients can reach, or "
        "make these names and ports reachable from here and from the executors.",
    )
    local = all(finding.local for finding in failures.values())
    return Finding.failure(Step.BROKERS, error, local=local)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The planned write. `has_key` is True if the rows have a column `key`, or None if unknown."""

    config: SinkConfig
    has_key: bool | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are known before rows are read, including the dead letter topic."""
        named = (self.config.topic, self.config.dead_letters.dead_letter_topic)
        return tuple(name for name in named if name is not None)


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
        while not client.metadata.answered:
            now = client.now()
            if now >= deadline or (now >= early and _all_refuse(client)):
                return _unreachable(client, seconds)
            left = (early if now < early else deadline) - now
            client.run_once(min(left, _MAX_POLL_S))
    except errors.KafkaProdError as error:
        tried = error.broker and client.failures.diagnosis(error.broker)
        if tried:
            return judge_connection(str(error.broker), tried)
        return Finding.failure(step_of_error(error), error, local=True)
    return None


def _all_refuse(client: BlockingClient) -> bool:
    """Return True if each bootstrap server was tried and failed with an error, not a timeout."""
    tried = [client.failures.diagnosis(server) for server in client.config.bootstrap_servers]
    return all(attempt is not None and not attempt.unanswered for attempt in tried)


def _unreachable(client: BlockingClient, seconds: float) -> Finding:
    servers = client.config.bootstrap_servers
    under_way = {
        str(broker.node): no_response(broker.connection.state, seconds)
        for broker in client.brokers()
    }
    findings = []
    for server in servers:
        diagnosis = client.failures.diagnosis(server) or under_way.get(server)
        if diagnosis is not None:
            findings.append(judge_connection(server, diagnosis))
    return judge_unreachable(findings, len(servers))


def create_topics(client: BlockingClient, config: SinkConfig) -> None:
    """Create the missing topics that options specify, if topic.create is true.

    Can block for max.block.ms. A dry run creates no topics.

    Raises:
        KafkaProdError: a topic cannot be created.
    """
    if config.dry_run:
        return
    for topic in topic_admin.topics_to_create(config):
        topic_admin.TopicAdmin(client).create(
            topic, client.deadline(config.producer.max_block_ms / 1000)
        )


def judge_topics(client: BlockingClient, intent: Intent, seconds: float) -> list[Finding]:
    """Check that the known topics exist and accept the planned write."""
    topics = intent.topics
    if not topics:
        return []
    deadline = client.deadline(seconds)
    try:
        facts = _ask(client, intent, topics, deadline)
        if any(_fails(topic, intent) for topic in facts):
            client.pause(_PROPAGATION_S, None)
            facts = _with_similar(client, _ask(client, intent, topics, deadline), deadline)
    except errors.KafkaProdError as error:
        return [Finding.warning(step_of_error(error), error, local=True)]
    return [finding for topic in facts for finding in _judge(topic, intent)]


def _fails(facts: topic_checks.TopicFacts, intent: Intent) -> bool:
    """Return True if the topic is missing and the write would not create it."""
    if not facts.is_missing:
        return False
    return any(finding.severity is Severity.ERROR for finding in _judge(facts, intent))


def _with_similar(
    client: BlockingClient, facts: list[topic_checks.TopicFacts], deadline: float
) -> list[topic_checks.TopicFacts]:
    """Add the names of similar existing topics to the facts of missing topics."""
    if not any(topic.is_missing for topic in facts):
        return facts
    try:
        names = topic_admin.TopicAdmin(client).names(deadline)
    except errors.BrokerUnavailableError:
        return facts
    return [
        replace(topic, similar=similar(topic.name, names)) if topic.is_missing else topic
        for topic in facts
    ]


def _judge(facts: topic_checks.TopicFacts, intent: Intent) -> list[Finding]:
    producer = intent.config.producer
    if (
        facts.is_missing
        and intent.config.dry_run
        and facts.name not in dict(intent.config.assumed_topics)
    ):
        return [topic_checks.missing_in_dry_run(facts)]
    findings = [topic_checks.judge_topic(facts, producer)]
    if facts.name == intent.config.topic:
        findings += topic_checks.judge_partitions(facts, intent.config.topic_creation.partitions)
        findings += topic_checks.judge_buffer(facts, producer, intent.has_key)
    if facts.exists:
        findings += topic_checks.judge_settings(facts, intent.config, intent.has_key)
        findings.append(topic_checks.judge_permissions(facts, producer))
    return findings


def _ask(
    client: BlockingClient, intent: Intent, topics: Sequence[str], deadline: float
) -> list[topic_checks.TopicFacts]:
    """Query the descriptions and the settings of topics concurrently."""
    described = ApiDriver(client, topic_admin.DescribeTopicsHandler(operations=True), topics)
    handler: topic_admin.DescribeConfigsHandler[str] = topic_admin.DescribeConfigsHandler(
        topic_admin.ConfigResource.TOPIC
    )
    configs = ApiDriver(client, handler, topics)
    described.step(client.now())
    if not configs.run(deadline) or not described.run(deadline):
        raise client.unavailable("describing the topics", described.latest_code)
    all_facts = []
    created_by_sink = {topic.name: topic for topic in topic_admin.topics_to_create(intent.config)}
    for name in topics:
        by_sink = created_by_sink.get(name)
        topic, settings = described.results[name], configs.results[name]
        missing = topic.code == ErrorCode.unknown_topic_or_partition
        may_be_created = by_sink is not None or intent.config.producer.allow_auto_create_topics
        all_facts.append(
            topic_checks.TopicFacts(
                name=name,
                code=topic.code,
                description=topic.value,
                settings=settings.value,
                of_dead_letters=name == intent.config.dead_letters.dead_letter_topic,
                creation=(
                    _creation(client, name, by_sink, deadline)
                    if missing and may_be_created
                    else None
                ),
            )
        )
    return all_facts


def _creation(
    client: BlockingClient, name: str, by_sink: topic_admin.NewTopic | None, deadline: float
) -> topic_checks.Creation:
    """Return what the brokers would do to create a topic, without creating it."""
    topic = by_sink or topic_admin.NewTopic(name=name, partitions=None)
    value = topic_admin.TopicAdmin(client).broker_config(_AUTO_CREATE, deadline)
    auto_create = None if value is None else value == "true"
    handler = topic_admin.CreateTopicsHandler([topic], validate_only=True)
    driver = ApiDriver(client, handler, (name,))
    if not driver.run(deadline):
        return topic_checks.Creation(by_sink=by_sink is not None, auto_create=auto_create)
    result = driver.results[name]
    code = 0 if result.code == ErrorCode.topic_already_exists else result.code
    return topic_checks.Creation(
        by_sink=by_sink is not None, auto_create=auto_create, code=code, message=result.message
    )


def judge_transactional_ids(
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
    if not exactly_once.exactly_once or config.dry_run:
        return []
    prefix = acl_prefix(exactly_once.transactional_id_prefix)
    name, deadline = f"{prefix}{_UNUSED_ID}", client.deadline(seconds)
    nobody = OpenTransaction(
        transactional_id=name, producer_id=0, epoch=0, version=TransactionVersion.V1
    )
    try:
        code = TransactionAdmin(client).end([nobody], commit=False, deadline=deadline)[name]
    except errors.KafkaProdError as error:
        return [Finding.warning(step_of_error(error), error, local=True)]
    acl = Acl(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, prefix, prefixed=True)
    if code in _ALLOWED:
        principal = topic_checks.guide_of(config.producer).principal
        return [Finding.ok(Step.PERMISSIONS, f"{acl} is allowed to {principal}")]
    if code != ErrorCode.transactional_id_authorization_failed:
        return []
    return [topic_checks.denied(acl, code, config.producer)]
