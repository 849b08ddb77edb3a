"""Reading a partition to its high watermark: resuming, and restarting after a change of the log."""

from typing import Any

import pytest

from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ProtocolError,
    UnknownTopicError,
)
from spark_kafka_sink.kafka.admin.log_reader import LogRead, LogReader, Position
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.coordination import LOST
from tests.unit.kafka.admin.partition_leader import PartitionLeader
from tools.support.transactions import batch

OUT_OF_RANGE, NOT_LEADER, FENCED_EPOCH, NOT_AVAILABLE = 1, 6, 74, 78
ALL = [b"a", b"b", b"c", b"d"]


def leader() -> PartitionLeader:
    """Create a leader with three batches: a b | c | d."""
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
def test_log_is_read_to_its_end_in_every_version(version: int) -> None:
    cluster = leader()
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    log_read = read(cluster)
    assert (values(log_read), log_read.restarted) == (ALL, False)
    assert log_read.position == at(cluster, 4, epoch=2)
    assert [asked.fetch_offset for asked in cluster.fetched()] == [0, 2, 3]
    assert cluster.versions_of(ApiKey.FETCH) == {version}


def test_throttled_fetch_is_sent_again() -> None:
    cluster = leader()
    cluster.throttled = 2
    assert values(read(cluster)) == ALL


def test_reading_resumes_after_a_position() -> None:
    cluster = leader()
    log_read = read(cluster, at(cluster, 2))
    assert (values(log_read), log_read.restarted) == ([b"c", b"d"], False)
    first = cluster.fetched()[0]
    assert (first.fetch_offset, first.last_fetched_epoch, first.current_leader_epoch) == (2, 0, 0)


def test_position_at_the_end_is_validated_by_the_leader() -> None:
    cluster = leader()
    log_read = read(cluster, at(cluster, 4, epoch=2))
    assert (values(log_read), log_read.position) == ([], at(cluster, 4, epoch=2))
    assert [asked.fetch_offset for asked in cluster.fetched()] == [4]


def test_empty_log_needs_one_request() -> None:
    cluster = PartitionLeader()
    assert read(cluster) == ((), at(cluster, 0, epoch=-1), False)
    assert len(cluster.fetched()) == 1


def test_truncated_log_start_is_respected() -> None:
    cluster = leader()
    cluster.start = 1
    assert values(read(cluster)) == [b"b", b"c", b"d"]


def test_compaction_gaps_are_skipped() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"a"]))
    cluster.hold(batch([b"z"]), base=90)
    assert values(read(cluster)) == [b"a", b"z"]


def test_log_may_be_empty_before_its_end() -> None:
    cluster = leader()
    cluster.end = 9
    log_read = read(cluster)
    assert (values(log_read), log_read.position.offset) == (ALL, 4)


def test_position_before_the_log_start_restarts() -> None:
    cluster = leader()
    cluster.fetch_codes.append(OUT_OF_RANGE)
    log_read = read(cluster, at(cluster, 2))
    assert (values(log_read), log_read.restarted) == (ALL, True)


def test_log_truncated_below_the_position_restarts() -> None:
    cluster = leader()
    log_read = read(cluster, at(cluster, 5))
    assert (values(log_read), log_read.restarted) == (ALL, True)


def test_log_truncated_and_regrown_restarts() -> None:
    cluster = leader()
    cluster.diverging = 1
    with pytest.raises(BrokerUnavailableError):
        read(cluster, at(cluster, 3, epoch=1), seconds=0.1)
    anew = [asked.last_fetched_epoch for asked in cluster.fetched()]
    assert anew[0] == 1
    assert set(anew[1:]) == {-1}


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("offset", [2, 4])
def test_recreated_topic_restarts(version: int, offset: int) -> None:
    cluster = leader()
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
def test_position_in_a_deleted_topic_of_the_same_name_restarts(version: int) -> None:
    cluster = leader()
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    before = at(cluster, 2)
    cluster.create("t", 1)
    log_read = read(cluster, before)
    assert (values(log_read), log_read.restarted) == (ALL, True)
    assert [asked.fetch_offset for asked in cluster.fetched()] == [0, 2, 3]


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED_EPOCH, 75, 9])
def test_moved_leader_is_looked_up(code: int) -> None:
    cluster = leader()
    cluster.fetch_codes.append(code)
    cluster.offset_codes.append(code)
    assert values(read(cluster)) == ALL
    assert len(cluster.requested_topics) >= 3


def test_lost_response_is_retried() -> None:
    cluster = leader()
    cluster.fetch_codes.extend([0, LOST, 0])
    assert values(read(cluster)) == ALL


def test_new_leader_without_high_watermark_is_retried() -> None:
    cluster = leader()
    cluster.offset_codes.extend([NOT_AVAILABLE, NOT_AVAILABLE])
    assert values(read(cluster)) == ALL


def test_fetch_that_stops_before_the_end_is_continued() -> None:
    cluster = leader()
    cluster.high_watermark, cluster.fetched_at_once = 2, 0
    with pytest.raises(BrokerUnavailableError):
        read(cluster, seconds=0.1)


def test_position_contains_open_transactions() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"open"], producer=5), batch([b"plain"]))
    log_read = read(cluster)
    assert values(log_read) == [b"plain"]
    (pending,) = log_read.position.pending
    assert (pending.producer_id, [record.value for record in pending.records]) == (5, [b"open"])


def test_denied_topic_error_names_the_permission() -> None:
    cluster = leader()
    cluster.fetch_codes.append(29)
    with pytest.raises(AuthorizationError, match="Read on topic t"):
        read(cluster)


def test_missing_topic_is_reported() -> None:
    cluster = leader()
    cluster.ids.clear()
    with pytest.raises(UnknownTopicError) as caught:
        read(cluster)
    assert caught.value.topic == "t"


def test_damaged_batch_is_an_error() -> None:
    cluster = leader()
    base, data = cluster.batches[1]
    cluster.batches[1] = (base, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ProtocolError, match="offset 2"):
        read(cluster)


def test_empty_response_is_not_the_end_until_the_leader_has_waited() -> None:
    """Only compaction may leave offsets without records; a quota or a slow store may not."""
    cluster, usual = leader(), PartitionLeader._fetch

    def fetch(node: int, request: Any) -> dict[str, Any] | None:
        response = usual(cluster, node, request)
        if response is not None and not request.max_wait:
            response["responses"][0]["partitions"][0]["records"] = b""
        return response

    cluster.scripts[ApiKey.FETCH] = fetch
    assert values(read(cluster)) == ALL


def test_batch_that_never_arrives_completely_is_an_error() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"a" * 100]))
    ((base, data),) = cluster.batches
    cluster.batches = [(base, data[:-1])]
    with pytest.raises(ProtocolError, match="no complete batch at offset 0"):
        read(cluster)
