"""The idempotent producer's id and epoch, and the request for them (KIP-98).

Used by the sender thread, and between two tasks by the writer thread. A successful session passes
its `ProducerIdentity` to the next session, so that brokers store one producer state per worker
process instead of one per task. Each session starts its sequences at 0 in a new epoch, because
brokers always accept sequence 0 in a new epoch.

Source: KIP-98, KIP-360; Kafka's ``TransactionManager``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.client.backoff import RetryTimer
from spark_kafka_sink.kafka.client.closed_connections import ClosedConnections
from spark_kafka_sink.kafka.client.request import Request
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.transactions import init_producer_id_values
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.records.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.client import Client
    from spark_kafka_sink.kafka.client.request import Completion
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor

LAST_EPOCH = (1 << 15) - 1


class ProducerIdState(Enum):
    """The state of the producer id: missing, requested or known."""

    MISSING = auto()
    REQUESTED = auto()
    KNOWN = auto()


_TRANSITIONS: dict[ProducerIdState, frozenset[ProducerIdState]] = {
    ProducerIdState.MISSING: frozenset({ProducerIdState.REQUESTED}),
    ProducerIdState.REQUESTED: frozenset({ProducerIdState.KNOWN, ProducerIdState.MISSING}),
    ProducerIdState.KNOWN: frozenset({ProducerIdState.MISSING}),
}


@dataclass(slots=True)
class ProducerIdentity:
    """The producer id and epoch; `PartitionState` assigns sequences."""

    state: ProducerIdState = ProducerIdState.MISSING
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    transactional_id: str | None = None
    is_used: bool = False
    """True if a partition has sequences in this epoch."""
    may_bump_epoch: bool = True
    """False if the cluster rejects epochs that InitProducerId has not returned.

    Apache Kafka accepts epochs that a producer has incremented; Tansu does not.
    """
    granted_epochs: dict[int, int] = field(default_factory=dict)
    """The epoch that InitProducerId has returned with each producer id."""

    def transition_to(self, state: ProducerIdState) -> None:
        """Change the state; raise AssertionError if the transition is not in the table."""
        if state not in _TRANSITIONS[self.state]:
            raise AssertionError(f"a producer id cannot change from {self.state} to {state}")
        self.state = state

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Store the producer id and epoch that InitProducerId returned."""
        self.transition_to(ProducerIdState.KNOWN)
        self.producer_id = producer_id
        self.epoch = epoch
        self.is_used = False
        self.granted_epochs[producer_id] = epoch

    def begin_session(self) -> None:
        """Start a new epoch if any partition has sequences in the current epoch."""
        if self.is_used:
            self.bump_epoch()

    def use_epoch(self) -> tuple[int, int]:
        """Return the producer id and epoch for a partition whose sequences start at 0."""
        if self.state is not ProducerIdState.KNOWN:
            raise AssertionError("a batch cannot have a sequence without a producer id")
        self.is_used = True
        return self.producer_id, self.epoch

    def bump_epoch(self) -> None:
        """Increment the epoch; after the last epoch, or if the cluster rejects that, request an id.

        Partitions that have sequences in an earlier epoch may continue in that epoch, because
        brokers check each partition separately.
        """
        self.is_used = False
        if self.state is not ProducerIdState.KNOWN:
            return  # the producer id is already missing or requested
        if self.epoch >= LAST_EPOCH or not self.may_bump_epoch:
            self.transition_to(ProducerIdState.MISSING)
        else:
            self.epoch += 1

    def is_client_bumped(self, producer_id: int, epoch: int) -> bool:
        """Return True if this producer has incremented the epoch without InitProducerId."""
        return self.transactional_id is None and epoch > self.granted_epochs.get(producer_id, epoch)


class ProducerIdRequester:
    """Sends InitProducerId while the producer has no id; sender thread only."""

    def __init__(self, client: Client, identity: ProducerIdentity, acls: AclAdvisor) -> None:
        self.identity = identity
        self._client = client
        self._acls = acls
        self._closed = ClosedConnections()
        self._retry = RetryTimer(client.config, client.random)

    @property
    def has_producer_id(self) -> bool:
        """True if batches can get sequences."""
        return self.identity.state is ProducerIdState.KNOWN

    def maybe_send(self, now: float) -> None:
        """Send InitProducerId if the producer id is missing and a broker is ready."""
        if self.identity.state is not ProducerIdState.MISSING or now < self._retry.due_at:
            return
        network = self._client.network
        self._closed.forget_restarted(network)
        node = self._client.metadata.any_node(network, now)
        if node is None:
            return
        version = network.broker(node.node_id).versions.latest_usable(ApiKey.INIT_PRODUCER_ID)
        self.identity.transition_to(ProducerIdState.REQUESTED)
        request = Request.of(ApiKey.INIT_PRODUCER_ID, version, init_producer_id_values(None), self)
        network.send(node.node_id, request, now)

    def handle_response(self, completion: Completion, now: float) -> None:
        """Store the producer id, or schedule a retry.

        Raises:
            DeliveryError: the broker rejects the request for a producer id.
            AuthorizationError: an ACL is missing.
            ProtocolError: a broker has closed the connection twice.
        """
        response = completion.response
        code = ClientErrorCode.disconnected if response is None else int(response.error_code)
        if response is not None and code == ErrorCode.none:
            self._retry.record_success()
            producer_id, epoch = int(response.producer_id), int(response.producer_epoch)
            self.identity.set_producer_id(producer_id, epoch)
        else:
            self.identity.transition_to(ProducerIdState.MISSING)
            self._retry_or_raise(completion, code, now)
        self._closed.record(completion)

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until `maybe_send` must be called again."""
        if self.identity.state is not ProducerIdState.MISSING:
            return 1.0
        return max(0.02, self._retry.due_at - now)

    def _retry_or_raise(self, completion: Completion, code: int, now: float) -> None:
        broker = str(completion.node)
        if code in error_codes.AUTHORIZATION_FAILED:
            raise self._acls.producer_id_error(self._client.metadata.session_topics, broker, code)
        if code not in error_codes.COORDINATOR_UNAVAILABLE:
            raise DeliveryError(
                "the broker rejected the request for a producer id",
                broker=broker,
                kafka_error=error_name(code),
                hint="Set kafka.enable.idempotence=false to write without a producer id.",
            )
        self._retry.back_off(now)
