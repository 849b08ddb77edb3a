"""Evaluate the markers of a log separately for each producer, without I/O.

A commit marker commits the producer's transactional records, and an abort marker drops them.
Therefore, open transactions of other producers cause no delay. Source: ``ProducerStateManager``;
KIP-98.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.records.control_batch import read_marker
from spark_kafka_sink.kafka.records.record_decoder import Record, decode_batch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.kafka.records.record_batch import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransaction:
    """A producer's transaction that has no marker yet."""

    producer_id: int
    epoch: int
    first_offset: int
    records: tuple[Record, ...] = ()


class CommittedRecords:
    """Collects the committed records of batches, which must be added in log order.

    Args:
        pending: the transactions that were open at the start position.
    """

    def __init__(self, pending: Iterable[PendingTransaction] = ()) -> None:
        self._pending: dict[int, PendingTransaction] = {}
        self._records: defaultdict[int, list[Record]] = defaultdict(list)
        for transaction in pending:
            self._pending[transaction.producer_id] = replace(transaction, records=())
            self._records[transaction.producer_id].extend(transaction.records)
        self._committed: list[Record] = []

    @property
    def pending(self) -> tuple[PendingTransaction, ...]:
        """Transactions that are still open, sorted by first offset."""
        transactions = (
            replace(transaction, records=tuple(self._records[producer_id]))
            for producer_id, transaction in self._pending.items()
        )
        return tuple(sorted(transactions, key=attrgetter("first_offset")))

    def take(self) -> tuple[Record, ...]:
        """Return the records that became committed since the last call, sorted by offset."""
        taken, self._committed = tuple(sorted(self._committed, key=attrgetter("offset"))), []
        return taken

    def add(self, batch: bytes | memoryview, header: BatchHeader, start: int = 0) -> None:
        """Add the batch at the beginning of `batch`, without its records before offset `start`.

        Raises:
            ProtocolError: the batch is corrupt, or its format is not v2.
        """
        if header.is_control:
            self._end(batch, header)
            return
        records = (record for record in decode_batch(batch) if record.offset >= start)
        if not header.is_transactional:
            self._committed.extend(records)
            return
        self._records[header.producer_id].extend(records)
        self._pending.setdefault(
            header.producer_id,
            PendingTransaction(
                producer_id=header.producer_id,
                epoch=header.producer_epoch,
                first_offset=header.base_offset,
            ),
        )

    def _end(self, batch: bytes | memoryview, header: BatchHeader) -> None:
        marker = read_marker(batch, header)
        pending = self._pending.pop(header.producer_id, None)
        records = self._records.pop(header.producer_id, [])
        if pending is None or not records:
            return
        if marker is None:  # Compaction removes a marker only after its transaction's records.
            raise ProtocolError(
                f"the marker at offset {header.base_offset} was removed, but not the records of "
                f"its transaction from offset {pending.first_offset}",
                hint="Run the write again, which reads the topic from its start.",
            )
        if marker.is_commit:
            self._committed.extend(records)
