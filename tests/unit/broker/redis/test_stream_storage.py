"""The last stable offset in a log with gaps between its batches: the end offset of a batch."""

from collections import Counter
from itertools import count
from unittest.mock import Mock

import pytest

from spark_kafka_sink.broker.config.topic_config import DEFAULT_LOG_CONFIG
from spark_kafka_sink.broker.partition.log_validator import AppendOptions
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.partition.unified_log import UnifiedLog
from spark_kafka_sink.broker.redis.entries import EntryIds
from spark_kafka_sink.broker.redis.stream_storage import RedisLogStorage
from spark_kafka_sink.broker.redis.streams import RedisStreams, StreamKeys
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker
from tools.support.raw_client import batch

NOW = 1_700_000_000_000
OPTIONS = AppendOptions(config=DEFAULT_LOG_CONFIG, produce_version=12, now_ms=NOW)


class GappedLog:
    """A partition with two replicas. Its storage leaves a gap before each batch."""

    def __init__(self) -> None:
        streams = Mock(spec=RedisStreams, reserved=0, keys=StreamKeys("records", "batches"))
        clock = Mock(wall_ms=Mock(side_effect=count(NOW, 10)))
        storage = RedisLogStorage(streams, EntryIds(), clock, DEFAULT_LOG_CONFIG)
        log = UnifiedLog(storage)
        self.partition = Partition(
            topic="t", index=0, leader=1, replicas=[1, 2], in_sync=[1, 2], log=log
        )
        self._sequences: Counter[int] = Counter()

    def write(self, producer_id: int = -1) -> int:
        """Append a batch of two records, transactional if it has a producer. Return its offset."""
        if producer_id < 0:
            data = batch(2, timestamp=NOW)
        else:
            sent = (producer_id, 0, self._sequences[producer_id])
            data = batch(2, producer=sent, is_transactional=True, timestamp=NOW)
            self._sequences[producer_id] += 2
        return self.partition.append(bytes(data), OPTIONS).base_offset

    def end(self, producer_id: int, *, commit: bool = True) -> int:
        """Append a marker and return its offset."""
        marker = EndTransactionMarker(producer_id=producer_id, epoch=0, is_commit=commit)
        self.partition.end_transaction(marker, NOW)
        return self.partition.log.end_offset - 1

    def stable(self, high_watermark: int | None = None) -> int:
        """Return the last stable offset; the default high watermark is the end of the log."""
        end = self.partition.log.end_offset
        self.partition.replica_states.high_watermark = (
            end if high_watermark is None else high_watermark
        )
        return self.partition.last_stable_offset


@pytest.fixture
def log() -> GappedLog:
    return GappedLog()


def test_transaction_at_the_start_of_the_log(log: GappedLog) -> None:
    assert log.write(1) > 0
    assert log.stable() == log.partition.log.start_offset == 0


def test_interleaved_transactions(log: GappedLog) -> None:
    before = log.write() + 2
    assert log.stable() == before
    first = log.write(1)
    assert (first > before, log.stable()) == (True, before)
    between = log.write() + 2
    second = log.write(2)
    log.write(1)
    assert log.stable() == before
    marker = log.end(1, commit=False)
    assert log.stable() == between
    (aborted,) = log.partition.transactions.aborted_between(0, marker + 1)
    assert (aborted.first_offset, aborted.last_offset) == (first, marker)
    assert log.partition.transactions.ongoing == {2: second}
    assert log.stable() == between
    last = log.end(2)
    assert log.stable() == last + 1 == log.partition.log.end_offset


def test_marker_that_is_not_replicated(log: GappedLog) -> None:
    before = log.write() + 2
    log.write(1)
    later = log.write() + 2
    marker = log.end(1)
    assert [log.stable(mark) for mark in (0, before, later, marker + 1)] == [
        0,
        before,
        before,
        marker + 1,
    ]


def test_deleted_records(log: GappedLog) -> None:
    ends = [log.write() + 2, log.write() + 2]
    first = log.write(1)
    log.write()
    for start in (ends[0], ends[0] + 1, ends[1]):
        log.partition.log.delete_records(start)
        assert log.stable() == ends[1]
    for start in (ends[1] + 1, first - 1, first):
        log.partition.log.delete_records(start)
        assert log.stable() == log.partition.log.start_offset == start
