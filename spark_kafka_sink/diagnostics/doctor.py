"""Run the checks of `kafkaprod doctor`, from name resolution to producing a record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.diagnostics import broker_checks, connection_checks
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.diagnostics.produce_check import produce_record, send_probe
from spark_kafka_sink.diagnostics.schema_checks import check_schemas
from spark_kafka_sink.kafka.blocking.blocking_client import (
    BlockingClient,
    QueuedRequest,
    RequestCompletion,
)
from spark_kafka_sink.kafka.protocol.messages import encode_request
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.security.acl_commands import principal_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.diagnostics.planned_write import PlannedWrite
    from spark_kafka_sink.kafka.client.broker_connection import BrokerConnection
    from spark_kafka_sink.kafka.client.channel.diagnosis import Diagnosis
    from spark_kafka_sink.kafka.client.cluster_snapshot import Node

STEP_TIMEOUT_S = 5.0
_MAX_POLL_S = 1.0


class ProduceAction(Enum):
    """The action of the last step."""

    PROBE = auto()
    """Send the leader a request that it must reject. Nothing is written."""
    RECORD = auto()
    """Write one record, which stays in the topic."""
    NONE = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctor:
    """Checks all requirements of a write."""

    write: PlannedWrite
    produce: ProduceAction = ProduceAction.PROBE
    """The action of the last step."""
    seconds: float = STEP_TIMEOUT_S
    """Time limit of each step."""

    def examine(self) -> Iterator[Finding]:
        """Yield each finding immediately.

        After a failed step, later steps that use Kafka are not run.
        """
        yield from self._examine_kafka()
        formats = self.write.config.formats
        if formats is not None and formats.registry is not None:
            yield from check_schemas(self.write.config)

    def _examine_kafka(self) -> Iterator[Finding]:
        failures: list[Finding] = []
        for server in self._producer.bootstrap_servers:
            for finding in self._examine_server(server):
                if finding.severity is Severity.ERROR:
                    failures.append(finding)
                else:
                    yield finding
        if len(failures) == len(self._producer.bootstrap_servers):
            yield from failures
            return
        for failure in failures:  # The servers that can be reached are sufficient.
            assert failure.error is not None
            yield Finding.warning(failure.step, failure.error, is_local=failure.is_local)
        try:
            yield from self._examine_cluster()
        except KafkaProdError as error:
            yield Finding.failure(connection_checks.step_of_error(error), error)

    @property
    def _producer(self) -> ProducerConfig:
        return self.write.config.producer

    def _examine_server(self, server: str) -> Iterator[Finding]:
        alone = replace(self._producer, bootstrap_servers=(server,))
        try:
            client = BlockingClient(alone)
        except KafkaProdError as error:
            yield Finding.failure(CheckStep.OPTIONS, error)
            return
        with client:
            diagnosis = _try_addresses(client, server, self.seconds)
            broker = next(iter(client.brokers()), None)
            failure = (
                None
                if diagnosis is None
                else connection_checks.connection_finding(server, diagnosis)
            )
            reached = CheckStep.METADATA if failure is None else failure.step
            for step in connection_checks.passed_before(reached):
                text = None if broker is None else _passed_step_text(step, broker, self._producer)
                if text is not None:
                    yield Finding.ok(step, text)
            if failure is not None:
                yield failure

    def _examine_cluster(self) -> Iterator[Finding]:
        with BlockingClient(self._producer) as client:
            failure = broker_checks.connect(client, self.seconds)
            if failure is not None:
                yield failure
                return
            nodes = client.cluster.nodes
            count = plural(len(nodes), "broker")
            yield Finding.ok(CheckStep.METADATA, f"{count} of cluster {client.cluster.cluster_id}")
            brokers = self._examine_brokers(client)
            yield brokers
            if brokers.severity is Severity.ERROR:
                return
            of_ids = broker_checks.check_transactional_ids(client, self.write.config, self.seconds)
            yield from of_ids
            if all(finding.severity is not Severity.ERROR for finding in of_ids):
                yield from self._examine_topics(client)

    def _examine_brokers(self, client: BlockingClient) -> Finding:
        """Check that every broker responds at its advertised address."""
        nodes = tuple(client.cluster.nodes.values())
        completions: dict[Node, RequestCompletion] = {}
        for node in nodes:
            client.submit(_ask_metadata(node, completions))
        deadline = client.deadline(self.seconds)
        while len(completions) < len(nodes) and client.now() < deadline:
            client.run_once(min(deadline - client.now(), _MAX_POLL_S))
        states = {broker.node: broker.state for broker in client.brokers()}
        failures = {}
        for node in nodes:
            completion = completions.get(node)
            if completion is not None and completion.response is not None:
                continue
            diagnosis = client.failures.diagnosis(str(node))
            if diagnosis is None and node in states:
                diagnosis = connection_checks.no_response(states[node], self.seconds)
            if diagnosis is not None:
                failures[f"broker {node.node_id}"] = connection_checks.connection_finding(
                    str(node), diagnosis
                )
        client.abandon()
        return connection_checks.brokers_finding(failures, len(nodes))

    def _examine_topics(self, client: BlockingClient) -> Iterator[Finding]:
        topic = self.write.config.topic
        if topic is None:
            yield Finding.note(CheckStep.TOPIC, "no topic is given: add --topic to check a topic")
        findings = broker_checks.check_topics(client, self.write, self.seconds)
        yield from findings
        if topic is None or any(finding.severity is Severity.ERROR for finding in findings):
            return
        exists = any(finding.step is CheckStep.PERMISSIONS for finding in findings)
        if self.produce is ProduceAction.RECORD:
            yield produce_record(self._producer, topic, 2 * self.seconds)
        elif self.produce is ProduceAction.PROBE and exists:
            is_idempotent = self._producer.enable_idempotence
            deadline = client.deadline(self.seconds)
            yield send_probe(client, topic, deadline, is_idempotent=is_idempotent)


def _try_addresses(client: BlockingClient, server: str, seconds: float) -> Diagnosis | None:
    """Try every address of a server once.

    Return None on success, or the diagnosis of the failure.
    """
    deadline = client.deadline(seconds)
    try:
        while not client.metadata.answered_requests:
            remaining_s = deadline - client.now()
            brokers = client.brokers()
            if brokers and brokers[0].attempts.failures:
                return client.failures.diagnosis(server)
            if remaining_s <= 0:
                return connection_checks.no_response(brokers[0].state, seconds) if brokers else None
            client.run_once(min(remaining_s, _MAX_POLL_S))
    except KafkaProdError:
        return client.failures.diagnosis(server)
    return None


def _passed_step_text(
    step: CheckStep, broker: BrokerConnection, config: ProducerConfig
) -> str | None:
    """Return the text for a step that has passed, or None if the step does not apply."""
    server = str(broker.node)
    security = config.security
    if step is CheckStep.RESOLVE:
        address = None if broker.attempts.address is None else broker.attempts.address[1][0]
        is_name = address not in {None, broker.node.host.strip("[]")}
        return f"{broker.node.host} is {address}" if is_name else None
    if step is CheckStep.CONNECT:
        return server
    if step is CheckStep.TLS:
        return None if security.tls is None else broker.cipher or security.protocol.value
    if step is CheckStep.VERSIONS:
        return f"{server} supports Kafka's protocol"
    if security.sasl is None:
        return None
    return f"{security.sasl.mechanism.value} as {principal_of(security)}"


def _ask_metadata(node: Node, completions: dict[Node, RequestCompletion]) -> QueuedRequest:
    def done(completion: RequestCompletion) -> None:
        completions[node] = completion

    return QueuedRequest(
        node=node,
        api=ApiKey.METADATA,
        body=lambda version: encode_request(ApiKey.METADATA, version, {"topics": ()}),
        done=done,
    )
