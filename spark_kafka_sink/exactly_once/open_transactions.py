"""The open transactions of a prefix, and the partitions in which they block readers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from spark_kafka_sink.exactly_once.decision_log import DRIVER_TIMEOUT_MS
from spark_kafka_sink.exactly_once.decision_record import ScopeState, state_of
from spark_kafka_sink.exactly_once.orphan_rules import OrphanCandidate, is_orphan
from spark_kafka_sink.exactly_once.scope_state import Decided
from spark_kafka_sink.exactly_once.transactional_id import (
    Scope,
    parse_driver_id,
    parse_task_id,
    prefix_pattern,
)
from spark_kafka_sink.kafka.blocking.api_driver import ApiDriver
from spark_kafka_sink.kafka.blocking.partition_offsets import ListOffsetsHandler
from spark_kafka_sink.kafka.protocol.list_offsets import LATEST
from spark_kafka_sink.kafka.protocol.transactions import OPEN_STATES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from spark_kafka_sink.exactly_once.decision_messages import DecisionRecords
    from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
    from spark_kafka_sink.kafka.admin.transaction_description import (
        ActiveProducer,
        TransactionDescription,
        TransactionListing,
    )
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition

_REQUEST_TIMEOUT_S = 30.0
"""Time limit in seconds for each request."""


class DecisionStatus(StrEnum):
    """The status of an open transaction according to the decision log."""

    DECIDED = "decided"
    """The next driver, or `commit`, will commit the transaction."""
    UNDECIDED = "undecided"
    """A running driver may still commit the transaction."""
    ORPHAN = "orphan"
    """The transaction can no longer be committed, and may be aborted."""
    DRIVER = "driver"
    """The transaction of a driver, for one append to the decision log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTransaction:
    """An open transaction, according to its coordinator and the decision log."""

    description: TransactionDescription
    scope: Scope
    batch: str
    """Number or name of the batch; empty for the driver's transactions, including a transaction
    that all tasks share.
    """
    status: DecisionStatus
    coordinator: int
    """Node id of the broker."""

    @property
    def transactional_id(self) -> str:
        """Id of a task attempt or a driver."""
        return self.description.transactional_id


def _open_transaction(
    records: DecisionRecords, description: TransactionDescription, coordinator: int
) -> OpenTransaction | None:
    """Return the transaction, or None if the id does not belong to a scope."""
    task = parse_task_id(description.transactional_id)
    scope = task.scope if task is not None else parse_driver_id(description.transactional_id)
    if scope is None:
        return None
    return OpenTransaction(
        description=description,
        scope=scope,
        batch="" if task is None else task.batch,
        status=_decision_status(state_of(records.latest(scope)), description),
        coordinator=coordinator,
    )


def _decision_status(state: ScopeState, description: TransactionDescription) -> DecisionStatus:
    """Return the status of a transaction, given the earlier state of its scope."""
    candidate = OrphanCandidate.of(description.transactional_id)
    if candidate is None:
        # Any other timeout is that of the transaction of all tasks (atomicBatch=true).
        is_append = description.timeout_ms == DRIVER_TIMEOUT_MS
        return DecisionStatus.DRIVER if is_append else DecisionStatus.UNDECIDED
    if isinstance(state, Decided) and candidate.transactional_id in state.transactional_ids:
        return DecisionStatus.DECIDED
    return DecisionStatus.ORPHAN if is_orphan(state, candidate) else DecisionStatus.UNDECIDED


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedPartition:
    """A partition in which an open transaction blocks read_committed consumers."""

    topic: str
    partition: int
    last_stable_offset: int
    """The offset at which read_committed readers stop."""
    high_watermark: int
    transactional_id: str | None
    """Id of the transaction that blocks readers; None if a different application has opened it."""

    @property
    def blocked_offsets(self) -> int:
        """Number of blocked offsets, including those of markers and aborted records."""
        return self.high_watermark - self.last_stable_offset


def _blocked_partition(
    topic_partition: TopicPartition,
    producers: Sequence[ActiveProducer],
    end: int,
    own_ids: Mapping[int, str],
) -> BlockedPartition | None:
    """Return the blocked partition, or None if it no longer has an open transaction."""
    starts = [
        (producer.transaction_start, producer.producer_id)
        for producer in producers
        if producer.transaction_start is not None
    ]
    if not starts:
        return None
    start, producer_id = min(starts)
    return BlockedPartition(
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        last_stable_offset=start,
        high_watermark=max(start, end),
        transactional_id=own_ids.get(producer_id),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionOverview:
    """The open transactions under a prefix, and the partitions in which they block readers."""

    transactions: tuple[OpenTransaction, ...]
    partitions: tuple[BlockedPartition, ...]
    now_ms: int
    """Time of the snapshot in milliseconds since 1970."""


class PrefixTransactions:
    """The open transactions of a prefix's drivers and tasks, as the brokers return them.

    Args:
        scope_client: sends the requests, for a scope with the prefix.
    """

    def __init__(self, scope_client: ScopeClient) -> None:
        self._client = scope_client.client
        self._admin = scope_client.admin
        self._pattern = prefix_pattern(scope_client.scope.prefix)

    def listed(self) -> Sequence[TransactionListing]:
        """Return the open transactions, sorted by id."""
        return self._admin.list(self._pattern, self._request_deadline())

    def opened(self, read_records: Callable[[], DecisionRecords]) -> list[OpenTransaction]:
        """Return the open transactions with their statuses, sorted by id.

        The decision log is read after they are listed: it contains every earlier decision. Without
        transactions, it is not needed, and before the first write it does not exist.
        """
        listed = self.listed()
        if not listed:
            return []
        records = read_records()
        coordinators = {listing.transactional_id: listing.coordinator for listing in listed}
        described = self._admin.describe(coordinators.keys(), self._request_deadline())
        # A listed transaction may have ended before it was described.
        still_open = [
            listing for _, listing in sorted(described.items()) if listing.state in OPEN_STATES
        ]
        opened = (
            _open_transaction(records, listing, coordinators[listing.transactional_id])
            for listing in still_open
        )
        return [transaction for transaction in opened if transaction is not None]

    def blocked_partitions(self, opened: Sequence[OpenTransaction]) -> Iterator[BlockedPartition]:
        """Yield the blocked partitions of these transactions, sorted by topic and number.

        Partitions that cannot be read, for example of a topic that was deleted, are omitted.
        """
        own_ids = {
            transaction.description.producer_id: transaction.transactional_id
            for transaction in opened
        }
        keys = {key for transaction in opened for key in transaction.description.partitions}
        offsets = ApiDriver(self._client, ListOffsetsHandler(self._client, LATEST), keys)
        offsets.run(self._request_deadline())
        ends = {
            key: result.value
            for key, result in offsets.results.items()
            if result.value is not None and not result.code
        }
        producers = self._admin.describe_producers(ends, self._request_deadline())
        for key, end in sorted(ends.items()):
            blocked = _blocked_partition(key, producers[key], end, own_ids)
            if blocked is not None:
                yield blocked

    def abort(self, transactional_ids: Collection[str]) -> dict[str, int]:
        """Abort transactions; return Kafka's error code for each id, 0 for success."""
        return self._admin.fence(transactional_ids, self._request_deadline())

    def _request_deadline(self) -> float:
        return self._client.deadline(_REQUEST_TIMEOUT_S)
