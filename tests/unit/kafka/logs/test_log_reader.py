"""Reading a partition to its high watermark, and which of its records are committed."""

from itertools import permutations
from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ProtocolError,
    UnknownTopicError,
)
from spark_kafka_sink.kafka.logs.fetch import whole_batches
from spark_kafka_sink.kafka.logs.log_reader import LogRead, LogReader, Position
from spark_kafka_sink.kafka.logs.topic_reader import TopicReader
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.isolation_level import IsolationLevel
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from spark_kafka_sink.kafka.records.committed_records import CommittedRecords, PendingTransaction
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker, encode_control_batch
from spark_kafka_sink.kafka.records.record_batch import TRANSACTIONAL, BatchHeader
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.partition_leader import PartitionLeader
from tests.unit.kafka.admin.scripted_coordinator import LOST
from tools.support.transactions import batch

ALL = [b"a", b"b", b"c", b"d"]
MARKER = EndTransactionMarker(producer_id=9, epoch=0, is_commit=True)


@pytest.fixture
def cluster() -> PartitionLeader:
    """Return a leader with three batches: a b | c | d."""
    cluster = PartitionLeader()
    cluster.hold(batch([b"a", b"b"]), batch([b"c"]), batch([b"d"], leader_epoch=2))
    return cluster


def read(
    cluster: PartitionLeader, position: Position | None = None, seconds: float = 10.0
) -> LogRead:
    with blocking_client(cluster) as client:
        return LogReader(client, "t").read(position, client.deadline(seconds))


def values(log_read: LogRead) -> list[bytes | None]:
    return [record.value for record in log_read.records]


def at(cluster: PartitionLeader, offset: int, epoch: int = 0) -> Position:
    return Position(topic_id=cluster.ids["t"], offset=offset, leader_epoch=epoch)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
def test_log_is_read_to_its_end_in_every_version(cluster: PartitionLeader, version: int) -> None:
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    log_read = read(cluster)
    assert (values(log_read), log_read.restarted) == (ALL, False)
    assert log_read.position == at(cluster, 4, epoch=2)
    assert [partition.fetch_offset for partition in cluster.fetched()] == [0, 2, 3]
    assert cluster.versions_of(ApiKey.FETCH) == {version}


def test_throttled_fetch_is_sent_again(cluster: PartitionLeader) -> None:
    cluster.throttled = 2
    assert values(read(cluster)) == ALL


def test_reading_resumes_after_a_position(cluster: PartitionLeader) -> None:
    log_read = read(cluster, at(cluster, 2))
    assert (values(log_read), log_read.restarted) == ([b"c", b"d"], False)
    first = cluster.fetched()[0]
    assert (first.fetch_offset, first.last_fetched_epoch, first.current_leader_epoch) == (2, 0, 0)


def test_position_at_the_end_is_validated_by_the_leader(cluster: PartitionLeader) -> None:
    log_read = read(cluster, at(cluster, 4, epoch=2))
    assert (values(log_read), log_read.position) == ([], at(cluster, 4, epoch=2))
    assert [partition.fetch_offset for partition in cluster.fetched()] == [4]


def test_empty_log_needs_one_request() -> None:
    cluster = PartitionLeader()
    assert read(cluster) == ((), at(cluster, 0, epoch=-1), False)
    assert len(cluster.fetched()) == 1


def test_truncated_log_start_is_respected(cluster: PartitionLeader) -> None:
    cluster.start = 1
    assert values(read(cluster)) == [b"b", b"c", b"d"]


def test_compaction_gaps_are_skipped() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"a"]))
    cluster.hold(batch([b"z"]), base=90)
    assert values(read(cluster)) == [b"a", b"z"]


def test_log_may_be_empty_before_its_end(cluster: PartitionLeader) -> None:
    cluster.end = 9
    log_read = read(cluster)
    assert (values(log_read), log_read.position.offset) == (ALL, 4)


def test_position_before_the_log_start_restarts(cluster: PartitionLeader) -> None:
    cluster.fetch_codes.append(ErrorCode.offset_out_of_range)
    log_read = read(cluster, at(cluster, 2))
    assert (values(log_read), log_read.restarted) == (ALL, True)


def test_log_truncated_below_the_position_restarts(cluster: PartitionLeader) -> None:
    log_read = read(cluster, at(cluster, 5))
    assert (values(log_read), log_read.restarted) == (ALL, True)


def test_log_truncated_and_regrown_restarts(cluster: PartitionLeader) -> None:
    cluster.diverging = 1
    with pytest.raises(BrokerUnavailableError):
        read(cluster, at(cluster, 3, epoch=1), seconds=1.0)
    first, *later = [partition.last_fetched_epoch for partition in cluster.fetched()]
    assert first == 1
    assert set(later) == {-1}


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("offset", [2, 4])
def test_recreated_topic_restarts(cluster: PartitionLeader, version: int, offset: int) -> None:
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    with blocking_client(cluster) as client:
        reader = LogReader(client, "t")
        reader.read(None, client.deadline(10))
        before = at(cluster, offset, epoch=0)
        cluster.create("t", 1)
        log_read = reader.read(before, client.deadline(10))
    assert (values(log_read), log_read.restarted) == (ALL, True)
    assert log_read.position.topic_id == cluster.ids["t"] != before.topic_id


@pytest.mark.parametrize("version", [12, 17])
def test_position_in_a_deleted_topic_of_the_same_name_restarts(
    cluster: PartitionLeader, version: int
) -> None:
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    before = at(cluster, 2)
    cluster.create("t", 1)
    log_read = read(cluster, before)
    assert (values(log_read), log_read.restarted) == (ALL, True)
    assert [partition.fetch_offset for partition in cluster.fetched()] == [0, 2, 3]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.replica_not_available,
    ],
)
def test_moved_leader_is_looked_up(cluster: PartitionLeader, code: int) -> None:
    cluster.fetch_codes.append(code)
    cluster.offset_codes.append(code)
    assert values(read(cluster)) == ALL
    assert len(cluster.requested_topics) >= 3


def test_lost_response_is_retried(cluster: PartitionLeader) -> None:
    cluster.fetch_codes.extend([0, LOST, 0])
    assert values(read(cluster)) == ALL


def test_new_leader_without_high_watermark_is_retried(cluster: PartitionLeader) -> None:
    cluster.offset_codes.extend([ErrorCode.offset_not_available, ErrorCode.offset_not_available])
    assert values(read(cluster)) == ALL


def test_fetch_that_stops_before_the_end_is_continued(cluster: PartitionLeader) -> None:
    cluster.high_watermark, cluster.fetched_at_once = 2, 0
    with pytest.raises(BrokerUnavailableError):
        read(cluster, seconds=1)


def test_position_contains_open_transactions() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"open"], producer=5), batch([b"plain"]))
    log_read = read(cluster)
    assert values(log_read) == [b"plain"]
    (pending,) = log_read.position.pending
    assert (pending.producer_id, [record.value for record in pending.records]) == (5, [b"open"])


def test_denied_topic_error_names_the_permission(cluster: PartitionLeader) -> None:
    cluster.fetch_codes.append(ErrorCode.topic_authorization_failed)
    with pytest.raises(AuthorizationError, match="Read on topic t"):
        read(cluster)


def test_missing_topic_is_reported(cluster: PartitionLeader) -> None:
    cluster.ids.clear()
    with pytest.raises(UnknownTopicError) as caught:
        read(cluster)
    assert caught.value.topic == "t"


def test_damaged_batch_is_an_error(cluster: PartitionLeader) -> None:
    base, data = cluster.batches[1]
    cluster.batches[1] = (base, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ProtocolError, match="offset 2"):
        read(cluster)


def test_empty_response_is_not_the_end_until_the_leader_has_waited(
    cluster: PartitionLeader,
) -> None:
    """Only compaction may leave offsets without records; a quota or a slow store may not."""
    cluster.hold(encode_control_batch(MARKER, 0), base=cluster.end)
    usual = PartitionLeader._fetch

    def fetch(node: int, request: Any) -> dict[str, Any] | None:
        response = usual(cluster, node, request)
        if response is not None and not request.max_wait:
            response["responses"][0]["partitions"][0]["records"] = b""
        return response

    cluster.scripts[ApiKey.FETCH] = fetch
    assert values(read(cluster)) == ALL
    with blocking_client(cluster) as client:
        assert LogReader(client, "t").marker_of(MARKER.producer_id, 0, client.deadline(10))
        reader = TopicReader(client, "t", IsolationLevel.READ_UNCOMMITTED)
        assert [record.value for record in reader.records(reader.bounds(0))] == ALL


def test_batch_that_never_arrives_completely_is_an_error() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"a" * 100]))
    ((base, data),) = cluster.batches
    cluster.batches = [(base, data[:-1])]
    with pytest.raises(ProtocolError, match="no complete batch at offset 0"):
        read(cluster)


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
        marker = EndTransactionMarker(producer_id=producer, epoch=epoch, is_commit=commit)
        data = encode_control_batch(marker, 1)
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


@pytest.fixture
def log() -> Log:
    return Log()


def test_records_without_a_transaction_are_committed(log: Log) -> None:
    log.write(b"a", b"b")
    assert log.committed() == ([b"a", b"b"], ())


def test_records_are_committed_by_the_marker_of_their_producer(log: Log) -> None:
    log.write(b"a", producer=1)
    log.write(b"b", producer=2)
    log.mark(2, commit=True)
    values, (pending,) = log.committed()
    assert values == [b"b"]
    assert (pending.producer_id, pending.first_offset) == (1, 0)
    (record,) = pending.records
    assert (record.offset, record.key, record.value) == (0, b"k", b"a")


def test_aborted_records_are_never_returned(log: Log) -> None:
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


def test_marker_without_records_is_ignored(log: Log) -> None:
    log.mark(1, commit=True)
    log.mark(2, commit=False)
    assert log.committed() == ([], ())


def test_transaction_continues_in_the_next_read(log: Log) -> None:
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


def test_records_before_the_start_of_the_log_are_skipped(log: Log) -> None:
    log.write(b"a", b"b", b"c")
    assert log.committed(start=2) == ([b"c"], ())


def test_truncated_batch_is_left_for_the_next_fetch(log: Log) -> None:
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


def test_damaged_batch_has_no_committed_records(log: Log) -> None:
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


def test_old_message_format_has_no_transactions(log: Log) -> None:
    log.write(b"a")
    old = bytearray(log.data)
    old[16] = 1
    with pytest.raises(ProtocolError, match="format v1"):
        list(whole_batches(memoryview(bytes(old))))


def test_tombstones_are_returned(log: Log) -> None:
    log.data += batch([None], base=0)
    assert log.committed() == ([None], ())
