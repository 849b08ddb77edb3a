"""Drive one session's transaction without blocking the sender.

InitProducerId is sent when there are records to write, so a session without rows leaves no state at
the coordinator. At most one request to the coordinator is in flight.

Source: Kafka's ``TransactionManager``.
"""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.client.backoff import RetryTimer
from spark_kafka_sink.kafka.client.closed_connections import ClosedConnections
from spark_kafka_sink.kafka.protocol import transactions
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.producer_id import ProducerIdState
from spark_kafka_sink.producer.transactions import coordinator_requests
from spark_kafka_sink.producer.transactions.abort_flag_check import flag_failure_code, flag_request
from spark_kafka_sink.producer.transactions.coordinator_errors import (
    RETRYING,
    CoordinatorAction,
    action_for,
    coordinator_error,
    error_code,
    worst_code,
)
from spark_kafka_sink.producer.transactions.find_coordinator import CoordinatorLookup
from spark_kafka_sink.producer.transactions.producer_transaction_state import (
    ENDED,
    FAILED,
    ProducerTransactionState,
    next_state,
)
from spark_kafka_sink.producer.transactions.transaction_abort import (
    abort_request,
    state_after_abort,
)
from spark_kafka_sink.producer.transactions.transaction_errors import (
    mark_uncommittable,
    second_attempt_error,
)
from spark_kafka_sink.producer.transactions.transaction_partitions import (
    AddState,
    TransactionPartitions,
)
from spark_kafka_sink.producer.transactions.transaction_settings import FIRST_EPOCH
from spark_kafka_sink.producer.transactions.transaction_timer import TransactionTimer

if TYPE_CHECKING:
    from collections.abc import Collection

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
    from spark_kafka_sink.kafka.client.request import Completion, Request
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.kafka.protocol.transactions import (
        TransactionalProducer,
        TransactionVersion,
    )
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.transactions.transaction_settings import (
        SharedTransaction,
        TransactionSettings,
    )

_ADD_BACKOFF_S = 0.02
"""Seconds to wait after CONCURRENT_TRANSACTIONS, while the markers of the previous transaction are
being written. Source: ``TransactionManager.ADD_PARTITIONS_RETRY_BACKOFF_MS``."""
_REQUESTING = {
    ProducerTransactionState.UNINITIALIZED,
    ProducerTransactionState.CHECKING_FLAG,
    ProducerTransactionState.ABORTING,
}
"""States in which a request follows unless one is in flight."""


class TransactionManager:
    """Drives one transaction: its state and the requests to the coordinator.

    Args:
        client: connections and clock.
        identity: the producer's identity, new for each transaction.
        settings: the transaction.
        acls: determines missing ACLs.

    Raises:
        ConfigError: the producer is not idempotent.
    """

    def __init__(
        self,
        client: ProducerClient,
        identity: ProducerIdentity,
        settings: TransactionSettings,
        acls: AclAdvisor,
    ) -> None:
        if not client.config.enable_idempotence:
            raise ConfigError(
                "a transaction needs an idempotent producer",
                hint="Set kafka.enable.idempotence=true and kafka.acks=all.",
            )
        self.settings = settings
        self._client = client
        self.identity = identity
        self._acls = acls

        # Set by any thread.
        self._abort_requested = False

        # Set by the sender thread; any thread may wait for it.
        self.ended = Event()
        """Set when no more requests follow, because the transaction has ended or this client cannot
        end it.
        """

        # Changed by the sender thread, and read by the writer after a flush.
        self.state = ProducerTransactionState.UNINITIALIZED
        self.timer = TransactionTimer(settings, client.clock)
        """Started by the first request that may begin the transaction."""
        self._opened: TransactionalProducer | None = None
        self.has_sent_init_producer_id = False
        self._has_acknowledged = False

        # Sender thread only.
        self._closed = ClosedConnections()
        self._own_coordinator = CoordinatorLookup(client, settings.first_id, acls)
        self._flag_coordinator = CoordinatorLookup(client, settings.abort_flag or "", acls)
        """Looks up the coordinator of the abort flag, if there is one."""
        self.partitions = TransactionPartitions()
        """The partitions to add before batches are sent to them (transactions V1)."""
        self._in_flight = False
        self._problem = ""
        self._retry = RetryTimer(client.config, client.random)

    # Any thread may call the methods below.

    def request_abort(self) -> None:
        """Request an abort of the transaction, if there is one; the caller wakes the sender."""
        self._abort_requested = True

    @property
    def has_ended(self) -> bool:
        """True if there is nothing left to abort."""
        return self.state in ENDED

    @property
    def transaction(self) -> TransactionalProducer | None:
        """The transaction with this session's records; None if it has none or has failed."""
        return self._opened if self._has_acknowledged and self.state not in FAILED else None

    @property
    def problem(self) -> str:
        """Kafka's name for the error that delays the transaction; empty if there is none."""
        return self._problem or self._coordinator.problem

    # The methods below are called by other parts of the sender, in the sender thread.

    @property
    def must_abort(self) -> bool:
        """True if an abort was requested and the transaction has not ended."""
        return self._abort_requested and self.state not in ENDED

    @property
    def has_begun(self) -> bool:
        """True if a request was sent that may have begun the transaction."""
        return self.timer.started_ms is not None

    @property
    def version(self) -> TransactionVersion:
        """The transaction protocol version; requires a producer id."""
        assert self._opened is not None
        return self._opened.version

    def may_send_to(self, topic_partition: TopicPartition) -> bool:
        """Return True if a batch of this partition may be sent."""
        return not self.version.needs_add_partitions or self.partitions.is_added(topic_partition)

    def on_sending(self, partitions: Collection[TopicPartition], now: float) -> None:
        """Record that a request with batches of these partitions is being sent."""
        self._begin(now)
        self.partitions.mark_used(partitions)

    def on_acknowledged(self) -> None:
        """Record that a batch was appended to a log."""
        self._has_acknowledged = True

    def mark_failed(self, error: KafkaProdError) -> None:
        """Mark the transaction as failed; it must not be committed. Add that to the error."""
        if self.has_begun:
            mark_uncommittable(error, self.settings)
        if self.state not in FAILED:
            self._transition_to(ProducerTransactionState.ABORTABLE_ERROR)

    # The sender's loop calls the methods below.

    def maybe_send(self, now: float, *, has_records_to_send: bool) -> None:
        """Send the next request if possible.

        Raises:
            DeliveryError: the transaction has timed out.
            ProtocolError: the brokers do not support a requested feature.
        """
        if self.state not in FAILED:
            self.timer.check_timeout(now)
        self._closed.forget_restarted(self._client.network)
        if self._in_flight or now < self._retry.due_at:
            return
        if self._abort_requested:
            self._maybe_begin_abort()
        if not self._is_due(has_records_to_send=has_records_to_send):
            return
        node = self._coordinator.ready_node(now, self)
        if node is None:
            return
        request = self._next_request(self._client.network.broker(node.node_id).versions, now)
        if request is None:
            self._accept_producer()
            return
        self._in_flight = True
        self._client.network.send(node.node_id, request, now)

    def handle_response(self, completion: Completion, now: float) -> None:
        """Handle the response to one of the requests.

        Raises:
            DeliveryError: the transaction cannot continue.
            ProtocolError: a broker has closed the connection on the same request twice.
        """
        self._handle_response(completion, now)
        # An abort is retried until its deadline.
        if self.state is not ProducerTransactionState.ABORTING:
            self._closed.record(completion)

    def _handle_response(self, completion: Completion, now: float) -> None:
        api = completion.request.api
        if api is ApiKey.FIND_COORDINATOR:
            self._coordinator.handle_response(completion, now)
            return
        self._in_flight = False
        if self.state is ProducerTransactionState.ABORTING:
            self._handle_abort(completion, now)
        elif api is ApiKey.DESCRIBE_TRANSACTIONS:
            self._handle_flag_check(completion, now)
        elif api is ApiKey.INIT_PRODUCER_ID:
            self._handle_init_producer_id(completion, now)
        else:
            self._handle_add_partitions(completion, now)

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until `maybe_send` must be called again."""
        waits_for_coordinator = self.state in _REQUESTING or self.partitions.in_state(AddState.NEW)
        if self._in_flight or not waits_for_coordinator:
            return 1.0
        return max(self._retry.due_at - now, self._coordinator.seconds_until_due(now))

    def _is_due(self, *, has_records_to_send: bool) -> bool:
        if self._abort_requested:
            return self.state is ProducerTransactionState.ABORTING
        if self.state is ProducerTransactionState.UNINITIALIZED:
            return has_records_to_send
        if self.state is ProducerTransactionState.CHECKING_FLAG:
            return True
        return self.state not in FAILED and bool(self.partitions.in_state(AddState.NEW))

    @property
    def _coordinator(self) -> CoordinatorLookup:
        """The coordinator that the next request is sent to."""
        if self.state is ProducerTransactionState.CHECKING_FLAG:
            return self._flag_coordinator
        return self._own_coordinator

    def _next_request(self, versions: NodeApiVersions, now: float) -> Request | None:
        """Return the next request; None if the broker supports no check of the abort flag."""
        match self.state:
            case ProducerTransactionState.UNINITIALIZED:
                return self._init_producer_id_request(versions)
            case ProducerTransactionState.CHECKING_FLAG:
                return flag_request(versions, self.settings, self)
            case ProducerTransactionState.ABORTING:
                return abort_request(versions, self.settings, self._opened, self)
        assert self._opened is not None
        self._begin(now)
        values = transactions.add_partitions_values(self._opened, self.partitions.take_new())
        return coordinator_requests.negotiated_request(
            versions, ApiKey.ADD_PARTITIONS_TO_TXN, values, self
        )

    def _init_producer_id_request(self, versions: NodeApiVersions) -> Request:
        request = coordinator_requests.init_producer_id_request(versions, self.settings, self)
        self._transition_to(ProducerTransactionState.INITIALIZING)
        self.has_sent_init_producer_id = True
        self.identity.transition_to(ProducerIdState.REQUESTED)
        return request

    def _begin(self, now: float) -> None:
        if self.state is ProducerTransactionState.READY:
            self._transition_to(ProducerTransactionState.IN_TRANSACTION)
            self.timer.start(now)

    # The methods below handle responses.

    def _handle_init_producer_id(self, completion: Completion, now: float) -> None:
        response = completion.response
        code = error_code(response)
        if code or response is None:
            self.identity.transition_to(ProducerIdState.MISSING)
            if self.state is ProducerTransactionState.INITIALIZING:
                self._transition_to(ProducerTransactionState.UNINITIALIZED)
            self._retry_or_raise(completion, code, now)
            return
        self._opened = self._resolve_producer(completion, response)
        self._record_success()
        if self.settings.abort_flag is None:
            self._accept_producer()
        elif self.state is ProducerTransactionState.INITIALIZING:
            self._transition_to(ProducerTransactionState.CHECKING_FLAG)

    def _handle_flag_check(self, completion: Completion, now: float) -> None:
        """Accept the producer id only if the driver has not aborted the write."""
        if code := flag_failure_code(completion.response, self.settings):
            self._retry_or_raise(completion, code, now)
        else:
            self._record_success()
            self._accept_producer()

    def _accept_producer(self) -> None:
        """Allow the sender to write with the producer id."""
        assert self._opened is not None
        self.identity.set_producer_id(self._opened.producer_id, self._opened.epoch)
        if self.state not in FAILED:
            self._transition_to(ProducerTransactionState.READY)

    def _resolve_producer(self, completion: Completion, response: Any) -> TransactionalProducer:
        """Return the granted producer, or the producer of the shared transaction."""
        shared = self.settings.shared
        if shared is None:
            versions = self._client.network.broker(completion.node.node_id).versions
            return transactions.producer_in(
                response, self.settings.transactional_id, versions.transaction_version
            )
        if int(response.producer_epoch) != FIRST_EPOCH:
            self.identity.transition_to(ProducerIdState.MISSING)
            raise second_attempt_error(shared.claim_id)
        self._use_coordinator_of(shared)
        return shared.producer

    def _use_coordinator_of(self, shared: SharedTransaction) -> None:
        """Switch to the coordinator of the shared transaction, which may be a different broker."""
        self._own_coordinator = CoordinatorLookup(
            self._client, shared.producer.transactional_id, self._acls
        )

    def _handle_add_partitions(self, completion: Completion, now: float) -> None:
        if completion.response is None:
            self.partitions.retry_adding()
            self._retry_or_raise(completion, ClientErrorCode.disconnected, now)
            return
        codes = transactions.read_partition_errors(completion.response)
        if rejected := self.partitions.record_response(codes):
            self._retry_or_raise(completion, worst_code(rejected), now)
        else:
            self._record_success()
        if ErrorCode.concurrent_transactions in rejected:
            self._retry.schedule(now + _ADD_BACKOFF_S)

    def _handle_abort(self, completion: Completion, now: float) -> None:
        api, code = completion.request.api, error_code(completion.response)
        after = state_after_abort(api, code)
        if after is ProducerTransactionState.ABORTING:
            self._schedule_retry(action_for(api, code), code, now)
        else:
            self._transition_to(after)

    def _retry_or_raise(self, completion: Completion, code: int, now: float) -> None:
        action = action_for(completion.request.api, code)
        if action in RETRYING:
            self._schedule_retry(action, code, now)
            return
        if action is CoordinatorAction.FAIL and self.state not in FAILED:
            self._transition_to(ProducerTransactionState.FATAL_ERROR)
        transactional_id = self.settings.transactional_id
        raise coordinator_error(completion, code, transactional_id, self._acls, self.settings)

    def _schedule_retry(self, action: CoordinatorAction, code: int, now: float) -> None:
        self._problem = error_name(code)
        self._retry.back_off(now)
        if action is CoordinatorAction.FIND_COORDINATOR:
            self._coordinator.forget(now)

    def _record_success(self) -> None:
        self._problem = ""
        self._retry.record_success()

    # The methods below end the transaction.

    def _maybe_begin_abort(self) -> None:
        """Start aborting a failed transaction if it has begun."""
        if self.state is not ProducerTransactionState.ABORTABLE_ERROR:
            return
        shared = self.settings.shared
        if shared is not None and self.has_sent_init_producer_id:
            # No later attempt can replace this attempt, so the whole batch cannot be committed.
            self._use_coordinator_of(shared)
        elif not self.has_begun:
            self._transition_to(ProducerTransactionState.ABORTED)
            return
        self._transition_to(ProducerTransactionState.ABORTING)

    def _transition_to(self, after: ProducerTransactionState) -> None:
        self.state = next_state(self.state, after)
        if after in ENDED:
            self.ended.set()
