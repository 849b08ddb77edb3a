"""Compare the log and the producer state with simple models."""

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.broker.partition.producer_state import BatchMetadata, ProducerStateManager
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.record_batch import MAX_SEQUENCE, BatchHeader, checksum
from tools.support.raw_client import batch

QUICK = settings(max_examples=40, deadline=None, database=None)


def header(first: int, count: int, epoch: int = 0) -> BatchHeader:
    return BatchHeader(
        last_offset_delta=count - 1,
        base_timestamp=0,
        max_timestamp=0,
        producer_id=1,
        producer_epoch=epoch,
        base_sequence=first,
        record_count=count,
    )


@QUICK
@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=12), data=st.data())
def test_log_contains_appended_batches(counts: list[int], data: st.DataObject) -> None:
    log, ends = UnifiedLog(), []
    model: list[bytes] = []
    for count in counts:
        appended = bytes(batch(count, timestamp=len(model)))
        base = log.append(appended, BatchHeader.parse(appended), leader_epoch=7)
        assert base == sum(counts[: len(model)])
        model.append(appended)
        ends.append(base + count)
    offset = data.draw(st.integers(0, log.end_offset))
    limit = data.draw(st.integers(0, 600))
    rest = [bytes(item)[16:] for item, end in zip(model, ends, strict=True) if end > offset]
    got = log.read(offset, limit, at_least_one=False)
    assert [bytes(stored)[16:] for stored in got] == rest[: len(got)]
    assert sum(map(len, got)) <= limit
    forced = log.read(offset, 0, at_least_one=True)
    assert [bytes(stored)[16:] for stored in forced] == rest[:1]
    assert all(BatchHeader.parse(stored).leader_epoch == 7 for stored in forced)
    assert log.bytes_from(offset, 1 << 20) == sum(len(body) + 16 for body in rest)


def test_append_time_updates_the_checksum() -> None:
    log, data = UnifiedLog(), bytes(batch(3, timestamp=5))
    log.append(data, BatchHeader.parse(data), leader_epoch=0, append_time=99)
    (stored,) = log
    batch_header = BatchHeader.parse(stored.data)
    assert (batch_header.max_timestamp, batch_header.is_log_append_time) == (99, True)
    assert batch_header.crc == checksum(stored.data)


@QUICK
@given(start=st.integers(0, MAX_SEQUENCE), counts=st.lists(st.integers(1, 9), max_size=12))
def test_sequence_check_agrees_with_a_model(start: int, counts: list[int]) -> None:
    table, sent, sequence, offset = ProducerStateManager(), [], start, 0
    for count in counts:
        batch_header = header(sequence, count)
        assert table.check_sequence(batch_header) is ErrorCode.none
        table.remember(batch_header, offset, -1)
        sent.append((batch_header, offset))
        sequence = (sequence + count) % (MAX_SEQUENCE + 1)
        offset += count
    for batch_header, base in sent[-5:]:
        verdict = table.check_sequence(batch_header)
        assert isinstance(verdict, BatchMetadata)
        assert verdict.base_offset == base
    for batch_header, _ in sent[:-5]:
        assert table.check_sequence(batch_header) is ErrorCode.out_of_order_sequence_number
