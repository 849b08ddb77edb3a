"""Which records of a log are committed, by the markers in the log itself. Pure.

A read_committed consumer stops at the last stable offset, so that any open transaction holds it
back, whoever's it is. Here each producer is on its own: its transactional records count from its
commit marker on, and never if an abort marker comes. Source: ``ProducerStateManager``, KIP-98.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.records.control_batch import read_marker
from spark_kafka_sink.records.decoder import read_records
from spark_kafka_sink.records.record_batch import (
    HEADER_SIZE,
    LENGTH_OFFSET,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    checksum,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class LogRecord:
    """A committed record; `value` None is a tombstone."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTransaction:
    """A producer's records for which no marker has come yet, from `first_offset` on."""

    producer_id: int
    epoch: int
    first_offset: int
    records: tuple[LogRecord, ...] = ()


class CommittedRecords:
    """Takes batches in the order of the log.

    Args:
        pending: what was open where the log was left off.
    """

    def __init__(self, pending: Iterable[PendingTransaction] = ()) -> None:
        self._pending = {each.producer_id: each for each in pending}
        self._committed: list[LogRecord] = []

    @property
    def pending(self) -> tuple[PendingTransaction, ...]:
        """Transactions that are still open, by first offset."""
        return tuple(sorted(self._pending.values(), key=lambda each: each.first_offset))

    def take(self) -> tuple[LogRecord, ...]:
        """What has been committed since the last call, by offset."""
        taken, self._committed = tuple(sorted(self._committed, key=_offset)), []
        return taken

    def add(self, batch: memoryview, header: BatchHeader, start: int) -> None:
        """Take the batch at byte 0; its records below the offset `start` are left out.

        Raises:
            ProtocolError: the batch is damaged, or not of format v2.
        """
        if header.is_control:
            self._end(batch, header)
            return
        records = tuple(
            LogRecord(offset=record.offset, key=record.key, value=record.value)
            for record in read_records(batch)
            if record.offset >= start
        )
        if not header.is_transactional:
            self._committed.extend(records)
            return
        known = self._pending.get(header.producer_id)
        self._pending[header.producer_id] = PendingTransaction(
            producer_id=header.producer_id,
            epoch=header.producer_epoch,
            first_offset=header.base_offset if known is None else known.first_offset,
            records=records if known is None else known.records + records,
        )

    def _end(self, batch: memoryview, header: BatchHeader) -> None:
        marker = read_marker(batch, header)
        if marker is None:
            return
        pending = self._pending.pop(marker.producer_id, None)
        if pending is not None and marker.commit:
            self._committed.extend(pending.records)


def whole_batches(data: memoryview) -> Iterator[tuple[memoryview, BatchHeader]]:
    """The batches of a Fetch response; one that is cut off at the end is left out.

    Raises:
        ProtocolError: a batch is damaged, or of a format older than v2.
    """
    at = 0
    while len(data) - at > MAGIC_OFFSET:
        size = LOG_OVERHEAD + int.from_bytes(data[at + LENGTH_OFFSET : at + LOG_OVERHEAD], "big")
        if at + size > len(data):
            return
        if size < HEADER_SIZE:
            raise ProtocolError(f"a record batch of {size} bytes")
        batch = data[at : at + size]
        if batch[MAGIC_OFFSET] != MAGIC:
            raise ProtocolError(
                f"a batch of format v{batch[MAGIC_OFFSET]}, which has no transactions",
                hint="raise log.message.format.version to 0.11 or later",
            )
        header = BatchHeader.parse(batch)
        if header.crc != checksum(batch):
            raise ProtocolError(f"the batch at offset {header.base_offset} has a wrong checksum")
        yield batch, header
        at += size


def _offset(record: LogRecord) -> int:
    return record.offset
