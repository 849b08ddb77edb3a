"""Which records are committed, by the markers that follow them."""

from itertools import permutations

import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.admin.log_reader import (
    CommittedRecords,
    LogRecord,
    PendingTransaction,
    whole_batches,
)
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker, control_batch
from spark_kafka_sink.kafka.records.record_batch import TRANSACTIONAL, BatchHeader
from tools.support.transactions import batch


class Log:
    """A log of consecutive batches."""

    def __init__(self) -> None:
        self.data = b""
        self.end = 0

    def write(self, *values: bytes, producer: int | None = None, epoch: int = 0) -> None:
        """Write a batch with keys `b\"k\"`, in a transaction if there is a producer."""
        data = batch(values, base=self.end, producer=producer, epoch=epoch)
        self.data += data
        self.end += len(values)

    def mark(self, producer: int, *, commit: bool, epoch: int = 1) -> None:
        """Write the marker that ends a producer's transaction."""
        marker = EndTransactionMarker(producer_id=producer, epoch=epoch, commit=commit)
        data = control_batch(marker, 1)
        self.data += self.end.to_bytes(8, "big") + data[8:]
        self.end += 1

    def committed(
        self, start: int = 0
    ) -> tuple[list[bytes | None], tuple[PendingTransaction, ...]]:
        """Return the committed values and the open transactions."""
        records = CommittedRecords()
        for data, header in whole_batches(memoryview(self.data)):
            records.add(data, header, start)
        return [record.value for record in records.take()], records.pending


def test_records_without_a_transaction_are_committed() -> None:
    log = Log()
    log.write(b"a", b"b")
    assert log.committed() == ([b"a", b"b"], ())


def test_records_are_committed_by_the_marker_of_their_producer() -> None:
    log = Log()
    log.write(b"a", producer=1)
    log.write(b"b", producer=2)
    log.mark(2, commit=True)
    values, (pending,) = log.committed()
    assert values == [b"b"]
    assert (pending.producer_id, pending.first_offset) == (1, 0)
    assert pending.records == (LogRecord(offset=0, key=b"k", value=b"a"),)


def test_aborted_records_are_never_returned() -> None:
    log = Log()
    log.write(b"a", producer=1)
    log.mark(1, commit=False)
    log.write(b"b", producer=1, epoch=1)
    log.mark(1, commit=True, epoch=2)
    assert log.committed() == ([b"b"], ())


def test_records_are_sorted_by_offset_for_any_order_of_markers() -> None:
    for order in permutations((1, 2, 3)):
        log = Log()
        for producer in (1, 2, 3):
            log.write(b"%d" % producer, producer=producer)
        for producer in order:
            log.mark(producer, commit=True)
        assert log.committed() == ([b"1", b"2", b"3"], ())


def test_marker_without_records_is_ignored() -> None:
    log = Log()
    log.mark(1, commit=True)
    log.mark(2, commit=False)
    assert log.committed() == ([], ())


def test_transaction_continues_in_the_next_read() -> None:
    log = Log()
    log.write(b"a", producer=1)
    _, pending = log.committed()
    rest = Log()
    rest.end = log.end
    rest.write(b"b", producer=1)
    rest.mark(1, commit=True)
    records = CommittedRecords(pending)
    for data, header in whole_batches(memoryview(rest.data)):
        records.add(data, header, log.end)
    assert [record.value for record in records.take()] == [b"a", b"b"]
    assert records.take() == ()


def test_records_before_the_start_of_the_log_are_skipped() -> None:
    log = Log()
    log.write(b"a", b"b", b"c")
    assert log.committed(start=2) == ([b"c"], ())


def test_truncated_batch_is_left_for_the_next_fetch() -> None:
    log = Log()
    log.write(b"a")
    whole = len(log.data)
    log.write(b"b")
    for end in range(whole, len(log.data)):
        assert len(list(whole_batches(memoryview(log.data)[:end]))) == 1


def test_batch_emptied_by_compaction_is_accepted() -> None:
    header = BatchHeader(
        attributes=TRANSACTIONAL, last_offset_delta=4, producer_id=1, record_count=0
    )
    records = CommittedRecords()
    ((data, read),) = whole_batches(memoryview(header.pack([])))
    records.add(data, read, 0)
    assert (records.take(), records.pending[0].records) == ((), ())


def test_damaged_batch_is_an_error() -> None:
    log = Log()
    log.write(b"a")
    for place in range(21, len(log.data)):
        broken = bytearray(log.data)
        broken[place] ^= 1
        with pytest.raises(ProtocolError, match="checksum"):
            list(whole_batches(memoryview(bytes(broken))))


@pytest.mark.parametrize("size", [0, 1, 48])
def test_batch_that_is_too_short_is_an_error(size: int) -> None:
    data = bytes(8) + size.to_bytes(4, "big") + bytes(60)
    with pytest.raises(ProtocolError, match=r"has only \d+ bytes"):
        list(whole_batches(memoryview(data)))


def test_old_message_format_has_no_transactions() -> None:
    log = Log()
    log.write(b"a")
    old = bytearray(log.data)
    old[16] = 1
    with pytest.raises(ProtocolError, match="format v1"):
        list(whole_batches(memoryview(bytes(old))))


def test_tombstones_are_returned() -> None:
    log = Log()
    log.data += batch([None], base=0)
    assert log.committed() == ([None], ())
