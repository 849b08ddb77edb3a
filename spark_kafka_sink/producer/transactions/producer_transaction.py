"""Settings, states, partitions and errors of a session's transaction.

The producer checks transaction.timeout.ms from its first request that may begin the transaction.
The coordinator's timeout starts later, with the first added partition, so the producer detects it
at most one round trip early.

With transactions V1, the producer must add each partition with AddPartitionsToTxn before it sends
the first batch; otherwise the partition's log would contain a transaction that no marker ever ends.
With transactions V2, the brokers add the partitions.

Source: KIP-98, KIP-890; Kafka's ``TransactionManager.maybeAddPartition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.security.acl_commands import Acl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from spark_kafka_sink.common.errors import KafkaProdError
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer


FIRST_EPOCH = 0
"""The epoch that InitProducerId grants to the first request for a transactional id."""

RUN_AGAIN = "Run the write again: read_committed consumers never see records of this transaction."
_SHARED_PARTITION = (
    "Another task of the batch also writes to this partition, but with atomicBatch=true each "
    "partition belongs to one task: write spark_kafka_sink.repartition_by_kafka_partition(df, "
    "options)."
)
_UNEXPECTED_SEQUENCE = error_name(ErrorCode.out_of_order_sequence_number)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTransaction:
    """A transaction that a driver has begun and that several sessions write to.

    Leaders identify a producer only by its id and epoch. If two sessions wrote to the same
    partition, batches of the second session could be acknowledged as duplicates without being
    appended. So only one session may write to a partition, and only one attempt of each task may
    write: the attempt whose InitProducerId for `claim_id` returns epoch 0.
    """

    producer: TransactionalProducer
    claim_id: str
    """A transactional id that is shared only by the attempts of one task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Settings of a session's transaction. Its id must not have been used, unless `joined` is set.

    `timeout_ms` is transaction.timeout.ms: the coordinator aborts a transaction that is open for
    longer. With `two_phase`, the transaction has no timeout (KIP-939); brokers must allow this.
    """

    transactional_id: str
    timeout_ms: int
    two_phase: bool = False
    joined: JoinedTransaction | None = None
    """The transaction to write to, if a driver has begun it."""
    abort_flag: str | None = None
    """A transactional id that the driver creates before it lists the transactions to abort. A task
    that finds this id after InitProducerId does not start a transaction.
    """
    id_prefix: str | None = None
    """Common prefix of all attempts' transactional ids, for the ACL in error messages."""

    @property
    def first_id(self) -> str:
        """The transactional id of the first InitProducerId, sent before any record."""
        return self.transactional_id if self.joined is None else self.joined.claim_id

    @property
    def acl(self) -> Acl:
        """The ACL that the producer needs for the transactional id."""
        kind, prefix = ResourceType.TRANSACTIONAL_ID, self.id_prefix
        return Acl(AclOperation.WRITE, kind, prefix or self.transactional_id, prefixed=bool(prefix))


class ProducerTransactionState(Enum):
    """The state of the transaction as known to this producer."""

    UNINITIALIZED = auto()
    """There is no producer id, and no request for a producer id is in flight."""
    INITIALIZING = auto()
    """InitProducerId is in flight."""
    READY = auto()
    """There is a producer id; the transaction has not begun."""
    IN_TRANSACTION = auto()
    """A partition is being added, or records were sent: the coordinator may have begun the
    transaction.
    """
    ABORTABLE_ERROR = auto()
    """The transaction can no longer be committed, only aborted."""
    FATAL_ERROR = auto()
    """The coordinator rejects all requests of this producer, even an abort request."""
    ABORTING = auto()
    """An abort was requested; the coordinator has not responded."""
    ABORTED = auto()
    """The transaction has ended or never began."""


_STATE = ProducerTransactionState
_TRANSITIONS: dict[ProducerTransactionState, frozenset[ProducerTransactionState]] = {
    _STATE.UNINITIALIZED: frozenset(
        {_STATE.INITIALIZING, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}
    ),
    _STATE.INITIALIZING: frozenset(
        {_STATE.READY, _STATE.UNINITIALIZED, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}
    ),
    _STATE.READY: frozenset({_STATE.IN_TRANSACTION, _STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}),
    _STATE.IN_TRANSACTION: frozenset({_STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR}),
    _STATE.ABORTABLE_ERROR: frozenset({_STATE.ABORTING, _STATE.ABORTED, _STATE.FATAL_ERROR}),
    _STATE.FATAL_ERROR: frozenset(),
    _STATE.ABORTING: frozenset({_STATE.ABORTED, _STATE.FATAL_ERROR}),
    _STATE.ABORTED: frozenset(),
}
FAILED = frozenset({_STATE.ABORTABLE_ERROR, _STATE.FATAL_ERROR, _STATE.ABORTING, _STATE.ABORTED})
"""States in which no records are written and which never lead to a commit."""
ENDED = frozenset({_STATE.FATAL_ERROR, _STATE.ABORTED})
"""States in which no more requests for the transaction are necessary."""


def next_state(
    before: ProducerTransactionState, after: ProducerTransactionState
) -> ProducerTransactionState:
    """Return `after`; raise AssertionError if the transition is not in the table."""
    if after not in _TRANSITIONS[before]:
        raise AssertionError(f"a transaction cannot change from {before} to {after}")
    return after


class AddState(Enum):
    """The state of a partition in the transaction."""

    NEW = auto()
    """The partition must be added."""
    ADDING = auto()
    """AddPartitionsToTxn is in flight."""
    ADDED = auto()


class TransactionPartitions:
    """The partitions of one transaction; sender thread only."""

    def __init__(self) -> None:
        self._states: dict[TopicPartition, AddState] = {}
        self._unused: set[TopicPartition] = set()
        """Added partitions to which nothing has been sent."""

    def is_added(self, topic_partition: TopicPartition) -> bool:
        """Return True if the coordinator has confirmed the partition."""
        return self._states.get(topic_partition) is AddState.ADDED

    def pending(self, topic: str) -> int:
        """Return the number of a topic's partitions that must be added or are being added."""
        return sum(
            partition.topic == topic and state is not AddState.ADDED
            for partition, state in self._states.items()
        )

    def for_batches(
        self,
        topic: str,
        partitions: Iterable[int],
        ready: int,
        head: Callable[[], object],
        new: list[TopicPartition],
    ) -> Iterator[int]:
        """Yield the drawn partitions that unassigned batches of a topic may be sent to.

        Partitions that are added but unused come first. If there are too few, request more, at most
        one per batch, because few partitions save transaction markers. A batch for which a
        partition is being added waits for that partition.

        Args:
            topic: the topic's name.
            partitions: the partitions in random order.
            ready: number of waiting batches.
            head: returns the first of these batches, which changes when a batch is drained.
            new: receives the partitions to be added.
        """
        free = ready - self.pending(topic)
        unused = {topic_partition for name, topic_partition in self._unused if name == topic}
        for number in sorted(partitions, key=lambda number: number not in unused):
            if free <= 0:
                return
            topic_partition = TopicPartition(topic, number)
            if topic_partition not in self._states:
                new.append(topic_partition)
                free -= 1
            elif self.is_added(topic_partition):
                batch = head()
                yield number
                free -= head() is not batch

    def request(self, partitions: Iterable[TopicPartition]) -> None:
        """Request that these partitions be added, unless they are added or being added."""
        for partition in partitions:
            self._states.setdefault(partition, AddState.NEW)

    def in_state(self, state: AddState) -> list[TopicPartition]:
        """Return the partitions in this state, in the order in which they were requested."""
        return [partition for partition, now in self._states.items() if now is state]

    def take_new(self) -> list[TopicPartition]:
        """Return all partitions to be added, and mark them as being added."""
        added = self.in_state(AddState.NEW)
        self._states.update(dict.fromkeys(added, AddState.ADDING))
        return added

    def mark_added(self, topic_partition: TopicPartition) -> None:
        """Record that the coordinator has added the partition."""
        self._states[topic_partition] = AddState.ADDED
        self._unused.add(topic_partition)

    def retry_adding(self) -> None:
        """Mark the partitions being added as not added, so that they are requested again."""
        adding = self.in_state(AddState.ADDING)
        self._states.update(dict.fromkeys(adding, AddState.NEW))

    def drop(self, topic_partition: TopicPartition) -> None:
        """Remove a rejected partition; a later batch may request it again."""
        self._states.pop(topic_partition, None)

    def mark_used(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that batches were sent to these partitions."""
        if self._unused:
            self._unused.difference_update(partitions)


def second_attempt_error(claim_id: str) -> DeliveryError:
    """Return the error for a second attempt of a task, which atomicBatch=true does not allow."""
    return DeliveryError(
        f"{claim_id}: this task ran a second time, which atomicBatch=true does not allow, or "
        "the response to its claim was lost; no record of the batch becomes visible",
        hint="Restart the stream, which continues from its checkpoint, or run the batch job again. "
        "Spark's UI and the driver's log show why a first attempt failed. If tasks are often "
        "retried, remove atomicBatch.",
    )


def timed_out_error(settings: TransactionSettings) -> DeliveryError:
    """Return the error for a transaction that was open for longer than its timeout."""
    return DeliveryError(
        f"the transaction of {settings.transactional_id} has been open for transaction.timeout.ms "
        f"= {settings.timeout_ms}: the coordinator has aborted it",
        kafka_error=error_name(ErrorCode.invalid_txn_state),
        hint="Make the tasks shorter (more partitions of the DataFrame, smaller micro-batches), "
        "or raise transaction.timeout.ms and, on the brokers, transaction.max.timeout.ms.",
    )


def cancelled_error(transactional_id: str) -> DeliveryError:
    """Return the error for a transaction that is aborted because its task was cancelled."""
    return DeliveryError(
        f"the transaction of {transactional_id} was aborted because its task was cancelled",
        hint=RUN_AGAIN,
    )


def aborted_write_error(transactional_id: str) -> DeliveryError:
    """Return the error for a write that the driver aborted before the transaction began."""
    return DeliveryError(
        f"{transactional_id}: the driver aborted this write before the task began",
        hint="The write was cancelled, the query was stopped, or another task failed first.",
    )


def mark_uncommittable(error: KafkaProdError, settings: TransactionSettings) -> None:
    """Add to an error's message that the transaction cannot be committed."""
    error.message = (
        f"{error.message}; the transaction of {settings.transactional_id} cannot be committed; "
        "read_committed consumers never see its records"
    )
    if error.kafka_error == _UNEXPECTED_SEQUENCE:
        error.hint = RUN_AGAIN if settings.joined is None else _SHARED_PARTITION
