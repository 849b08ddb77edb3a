"""Reading a partition to its high watermark: where it goes on, and when it begins anew."""

from __future__ import annotations

import pytest

from spark_kafka_sink.admin.log_reader import LogRead, LogReader, Position
from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ProtocolError,
    UnknownTopicError,
)
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange
from tests.support.harness.scripted import blocking_client
from tests.unit.admin.coordination import LOST
from tests.unit.admin.partition_leader import PartitionLeader
from tools.support.transactions import batch

OUT_OF_RANGE, NOT_LEADER, FENCED_EPOCH, NOT_AVAILABLE = 1, 6, 74, 78
ALL = [b"a", b"b", b"c", b"d"]


def leader() -> PartitionLeader:
    """Three batches, a b | c | d."""
    cluster = PartitionLeader()
    cluster.hold(batch([b"a", b"b"]), batch([b"c"]), batch([b"d"], leader_epoch=2))
    return cluster


def read(
    cluster: PartitionLeader, position: Position | None = None, seconds: float = 10.0
) -> LogRead:
    with blocking_client(cluster) as client:
        return LogReader(client, "t").read(position, client.deadline(seconds))


def values(found: LogRead) -> list[bytes | None]:
    return [record.value for record in found.records]


def at(cluster: PartitionLeader, offset: int, epoch: int = 0) -> Position:
    return Position(topic_id=cluster.ids["t"], offset=offset, leader_epoch=epoch)


@pytest.mark.parametrize("version", [4, 11, 12, 13, 17])
def test_a_log_is_read_to_its_end_in_every_version(version: int) -> None:
    cluster = leader()
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    found = read(cluster)
    assert (values(found), found.restarted) == (ALL, False)
    assert found.position == at(cluster, 4, epoch=2)
    assert [asked.fetch_offset for asked in cluster.fetched()] == [0, 2, 3]
    assert cluster.versions_of(ApiKey.FETCH) == {version}


def test_a_fetch_that_a_quota_throttles_is_sent_again() -> None:
    cluster = leader()
    cluster.throttled = 2
    assert values(read(cluster)) == ALL


def test_reading_goes_on_behind_a_position() -> None:
    cluster = leader()
    found = read(cluster, at(cluster, 2))
    assert (values(found), found.restarted) == ([b"c", b"d"], False)
    first = cluster.fetched()[0]
    assert (first.fetch_offset, first.last_fetched_epoch, first.current_leader_epoch) == (2, 0, 0)


def test_at_the_end_the_leader_is_asked_whether_the_log_is_the_same() -> None:
    cluster = leader()
    found = read(cluster, at(cluster, 4, epoch=2))
    assert (values(found), found.position) == ([], at(cluster, 4, epoch=2))
    assert [asked.fetch_offset for asked in cluster.fetched()] == [4]


def test_an_empty_log_is_asked_for_once() -> None:
    cluster = PartitionLeader()
    assert read(cluster) == ((), at(cluster, 0, epoch=-1), False)
    assert len(cluster.fetched()) == 1


def test_a_log_that_begins_later_is_read_from_there() -> None:
    cluster = leader()
    cluster.start = 1
    assert values(read(cluster)) == [b"b", b"c", b"d"]


def test_gaps_of_compaction_are_passed_over() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"a"]))
    cluster.hold(batch([b"z"]), base=90)
    assert values(read(cluster)) == [b"a", b"z"]


def test_nothing_may_be_left_before_the_end() -> None:
    cluster = leader()
    cluster.end = 9
    found = read(cluster)
    assert (values(found), found.position.offset) == (ALL, 4)


def test_a_position_before_the_log_begins_anew() -> None:
    cluster = leader()
    cluster.fetch_codes.append(OUT_OF_RANGE)
    found = read(cluster, at(cluster, 2))
    assert (values(found), found.restarted) == (ALL, True)


def test_a_log_that_was_cut_off_below_the_position_begins_anew() -> None:
    cluster = leader()
    found = read(cluster, at(cluster, 5))
    assert (values(found), found.restarted) == (ALL, True)


def test_a_log_that_was_cut_off_and_has_grown_again_begins_anew() -> None:
    cluster = leader()
    cluster.diverging = 1
    with pytest.raises(BrokerUnavailableError):
        read(cluster, at(cluster, 3, epoch=1), seconds=0.1)
    anew = [asked.last_fetched_epoch for asked in cluster.fetched()]
    assert anew[0] == 1
    assert set(anew[1:]) == {-1}


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("offset", [2, 4])
def test_a_topic_that_was_made_anew_begins_anew(version: int, offset: int) -> None:
    cluster = leader()
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    with blocking_client(cluster) as client:
        reader = LogReader(client, "t")
        reader.read(None, client.deadline(10))
        before = at(cluster, offset, epoch=0)
        cluster.create("t", 1)
        found = reader.read(before, client.deadline(10))
    assert (values(found), found.restarted) == (ALL, True)
    assert found.position.topic_id == cluster.ids["t"] != before.topic_id


@pytest.mark.parametrize("version", [12, 17])
def test_a_position_in_another_topic_of_the_name_begins_anew(version: int) -> None:
    cluster = leader()
    cluster.limit(ApiKey.FETCH, VersionRange(4, version))
    before = at(cluster, 2)
    cluster.create("t", 1)
    found = read(cluster, before)
    assert (values(found), found.restarted) == (ALL, True)
    assert [asked.fetch_offset for asked in cluster.fetched()] == [0, 2, 3]


@pytest.mark.parametrize("code", [NOT_LEADER, FENCED_EPOCH, 75, 9])
def test_a_leader_that_has_moved_is_looked_up(code: int) -> None:
    cluster = leader()
    cluster.fetch_codes.append(code)
    cluster.offset_codes.append(code)
    assert values(read(cluster)) == ALL
    assert len(cluster.requested_topics) >= 3


def test_an_answer_that_was_lost_is_asked_for_again() -> None:
    cluster = leader()
    cluster.fetch_codes.extend([0, LOST, 0])
    assert values(read(cluster)) == ALL


def test_a_new_leader_may_not_know_the_high_watermark_yet() -> None:
    cluster = leader()
    cluster.offset_codes.extend([NOT_AVAILABLE, NOT_AVAILABLE])
    assert values(read(cluster)) == ALL


def test_a_fetch_that_stops_below_the_end_is_not_the_end() -> None:
    cluster = leader()
    cluster.high_watermark, cluster.fetched_at_once = 2, 0
    with pytest.raises(BrokerUnavailableError):
        read(cluster, seconds=0.1)


def test_open_transactions_are_in_the_position() -> None:
    cluster = PartitionLeader()
    cluster.hold(batch([b"open"], producer=5), batch([b"plain"]))
    found = read(cluster)
    assert values(found) == [b"plain"]
    (pending,) = found.position.pending
    assert (pending.producer_id, [record.value for record in pending.records]) == (5, [b"open"])


def test_a_topic_that_may_not_be_read_is_told_with_the_right() -> None:
    cluster = leader()
    cluster.fetch_codes.append(29)
    with pytest.raises(AuthorizationError, match="Read on topic t"):
        read(cluster)


def test_a_topic_that_is_not_there_is_told() -> None:
    cluster = leader()
    cluster.ids.clear()
    with pytest.raises(UnknownTopicError) as caught:
        read(cluster)
    assert caught.value.topic == "t"


def test_a_damaged_batch_ends_it() -> None:
    cluster = leader()
    base, data = cluster.batches[1]
    cluster.batches[1] = (base, data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(ProtocolError, match="offset 2"):
        read(cluster)
