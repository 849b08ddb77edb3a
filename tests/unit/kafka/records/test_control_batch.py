"""Markers of any broker are read as Java's consumer reads them, by the type in their key."""

from collections.abc import Callable

import pytest

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.logs.topic_reader import visible_batches
from spark_kafka_sink.kafka.records.committed_records import CommittedRecords
from spark_kafka_sink.kafka.records.consumer_record import read_committed
from spark_kafka_sink.kafka.records.control_batch import read_marker
from spark_kafka_sink.kafka.records.record_batch import BatchHeader
from tests.support import reference
from tools.support.transactions import batch

CONTROL, TRANSACTIONAL = 0x20, 0x10
PRODUCER = 7
DATA = batch([b"a", b"b"], producer=PRODUCER)
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def control(
    key: bytes | None,
    value: bytes | None = None,
    attributes: int = CONTROL | TRANSACTIONAL,
    records: int = 1,
) -> bytes:
    """Return a control batch at offset 2, as another broker could write it."""
    messages = [reference.Message(value, key=key)] * records
    section = reference.records(messages) if messages else b""
    header = BatchHeader(
        base_offset=2, attributes=attributes, producer_id=PRODUCER, record_count=records
    )
    return header.pack([section]) + section


def from_log(end: bytes) -> list[bytes | None]:
    records = CommittedRecords()
    for data in (DATA, end):
        records.add(memoryview(data), BatchHeader.parse(data), 0)
    assert records.pending == ()
    return [record.value for record in records.take()]


def as_consumer(end: bytes) -> list[bytes | None]:
    return [record.value for record in read_committed("t", 0, [DATA, end], 3)]


@pytest.mark.parametrize("read", [from_log, as_consumer])
@pytest.mark.parametrize("attributes", [CONTROL | TRANSACTIONAL, CONTROL])
@pytest.mark.parametrize("value", [None, b"", b"\0", bytes(6), b"\0\1" + bytes(9)])
@pytest.mark.parametrize("version", [b"\0\0", b"\0\1", b"\x7f\xff"])
@pytest.mark.parametrize("suffix", [b"", b"more"])
def test_only_the_type_in_the_key_counts(
    read: Callable[[bytes], list[bytes | None]],
    attributes: int,
    value: bytes | None,
    version: bytes,
    suffix: bytes,
) -> None:
    for kind, values in ((b"\0\1", [b"a", b"b"]), (b"\0\0", [])):
        assert read(control(version + kind + suffix, value, attributes)) == values


@pytest.mark.parametrize(
    "key", [None, b"", b"\0\0\1", b"\xff\xff\0\1", b"\0\0\0\2", b"\0\0\xff\xff"]
)
def test_unknown_control_batch_is_an_error_of_every_reader(key: bytes | None) -> None:
    for read in (from_log, as_consumer, lambda end: list(visible_batches(memoryview(end), ()))):
        with pytest.raises(ProtocolError, match=r"offset 2 .* is not a transaction marker"):
            read(control(key, bytes(6)))


def test_marker_without_a_value_has_no_coordinator_epoch() -> None:
    for value, epoch in ((None, -1), (bytes(5) + b"\3", 3)):
        data = control(COMMIT, value)
        marker = read_marker(data, BatchHeader.parse(data))
        assert marker is not None
        assert (marker.is_commit, marker.producer_id, marker.coordinator_epoch) == (
            True,
            PRODUCER,
            epoch,
        )


def test_marker_may_be_compacted_only_after_its_records() -> None:
    empty = control(None, records=0)
    with pytest.raises(ProtocolError, match="marker at offset 2 was removed, but not the records"):
        from_log(empty)
    records = CommittedRecords()
    compacted = BatchHeader(attributes=TRANSACTIONAL, producer_id=PRODUCER, record_count=0).pack([])
    for data in (compacted, empty):
        records.add(memoryview(data), BatchHeader.parse(data), 0)
    assert (records.take(), records.pending) == ((), ())
