"""A journal without disk space: rejected changes have no effect and can be retried."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from spark_kafka_sink.broker.cluster.jumping_clock import JumpingClock
from spark_kafka_sink.broker.cluster.topic_store import TopicStore
from spark_kafka_sink.broker.cluster.topics import Topics, TopicSpec
from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.broker.coordinator.committed_offsets import CommittedOffset
from spark_kafka_sink.broker.coordinator.group_coordinator import GroupCoordinator
from spark_kafka_sink.broker.coordinator.producer_id_manager import BLOCK, ProducerIdManager
from spark_kafka_sink.broker.coordinator.transaction_coordinator import (
    CHECK_INTERVAL_MS,
    OFFSETS_PARTITION,
    TransactionCoordinator,
)
from spark_kafka_sink.broker.coordinator.transaction_state import ProducerIdAndEpoch
from spark_kafka_sink.broker.coordinator.transactional_offsets import TransactionalOffsets
from spark_kafka_sink.broker.partition.partition import Partition
from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory
from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.broker.storage.journal import TOPIC, Journal
from spark_kafka_sink.broker.storage.memory_backend import MemoryBackend
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.records.control_batch import EndTransactionMarker

NOW_MS = 1_700_000_000_000


class NoSpaceError(OSError):
    """Raised by a full journal."""


class FullJournal(Journal):
    """Accepts `room` more lines."""

    room = 1_000_000

    def put(self, kind: str, key: tuple[str | int, ...], value: Any) -> None:
        if not self.room:
            raise NoSpaceError
        self.room -= 1
        super().put(kind, key, value)


@pytest.fixture
def journal(tmp_path: Path) -> FullJournal:
    return FullJournal(tmp_path / "a.journal")


def reopened(journal: FullJournal, tmp_path: Path) -> Journal:
    journal.close()
    return Journal(tmp_path / "a.journal")


def test_producer_id_is_assigned_once(journal: FullJournal, tmp_path: Path) -> None:
    """Batches of a second producer with the same id could be treated as duplicates."""
    ids = ProducerIdManager(journal, NOW_MS)
    producer_ids = [ids.next() for _ in range(BLOCK)]
    journal.room = 0
    for _ in range(3):
        with pytest.raises(NoSpaceError):
            ids.next()
    journal.room = 1
    producer_ids.append(ids.next())
    kept = reopened(journal, tmp_path)
    producer_ids += [ProducerIdManager(kept, start_ms).next() for start_ms in (NOW_MS, 0)]
    producer_ids.append(ProducerIdManager(Journal(), NOW_MS + 100).next())
    assert len(set(producer_ids)) == len(producer_ids)


def test_rejected_offsets_and_configs_are_unchanged(journal: FullJournal) -> None:
    offsets = GroupCoordinator(journal).get_or_create("g").offsets
    offsets["t", 0] = CommittedOffset(offset=1)
    store = TopicStore(MemoryBackend(), journal)
    topics = Topics(BrokerConfig(), [1], store, (), lambda *_: None)
    topic = topics.create(TopicSpec(name="t", partitions=1))
    retention = topic.partitions[0].log.storage.config.retention_ms
    journal.room = 0
    with pytest.raises(NoSpaceError):
        offsets["t", 0] = CommittedOffset(offset=2)
    with pytest.raises(NoSpaceError):
        del offsets["t", 0]
    with pytest.raises(NoSpaceError):
        topics.configure(topic, {"retention.ms": "1"})
    assert offsets["t", 0].offset == 1
    assert topic.config.overrides == {}
    assert topic.partitions[0].log.storage.config.retention_ms == retention


def test_journal_is_written_again_after_a_failed_sync(
    journal: FullJournal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A second fsync would succeed without writing what the first one could not write."""
    journal.put("kind", ("key",), 1)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", Mock(side_effect=NoSpaceError))
        for _ in range(2):
            with pytest.raises(NoSpaceError):
                journal.sync()
    synced: list[bytes] = []
    fsync = os.fsync

    def sync(descriptor: int) -> None:
        fsync(descriptor)
        if (file := Path(f"/proc/self/fd/{descriptor}")).is_file():
            synced.append(file.read_bytes())

    monkeypatch.setattr("os.fsync", sync)
    journal.sync()
    assert b"".join(synced).startswith(b'["kind",["key"],1]')
    journal.put("kind", ("other",), 2)
    assert reopened(journal, tmp_path).all("kind") == {("key",): 1, ("other",): 2}


def test_topic_whose_journal_could_not_be_synced(
    journal: FullJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its creation can be repeated."""
    topics = Topics(BrokerConfig(), [1], TopicStore(MemoryBackend(), journal), (), lambda *_: None)
    new = TopicSpec(name="t", partitions=1)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", Mock(side_effect=NoSpaceError))
        with pytest.raises(ResponseError):
            topics.create(new)
    assert not journal.all(TOPIC)
    assert len(topics.create(new).partitions) == 1


def test_offsets_of_a_deleted_topic_are_not_inherited(journal: FullJournal, tmp_path: Path) -> None:
    groups = GroupCoordinator(journal)
    store = TopicStore(MemoryBackend(), journal)
    topics = Topics(BrokerConfig(), [1], store, (), groups.forget_topic)
    topic = topics.create(TopicSpec(name="t", partitions=1))
    offsets = groups.get_or_create("g").offsets
    offsets["t", 0] = CommittedOffset(offset=1)
    journal.room = 3  # lines for the topic's deletion, but none for the offset's
    topics.delete(topic)
    assert not journal.room
    with pytest.raises(ResponseError) as caught:
        topics.create(TopicSpec(name="t", partitions=1))
    assert caught.value.code is ErrorCode.kafka_storage_error
    journal.room = 1_000
    topics.create(TopicSpec(name="t", partitions=1))
    assert not offsets
    assert not GroupCoordinator(reopened(journal, tmp_path)).get_or_create("g").offsets


def test_stored_offsets_are_read_once(journal: FullJournal) -> None:
    for name in "ab":
        GroupCoordinator(journal).get_or_create(name).offsets["t", 0] = CommittedOffset(offset=1)
    read_all = Mock(wraps=journal.all)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal, "all", read_all)
        groups = GroupCoordinator(journal)
        assert [groups.get_or_create(name).offsets for name in "abc"] == [
            {TopicPartition("t", 0): CommittedOffset(offset=1)},
            {TopicPartition("t", 0): CommittedOffset(offset=1)},
            {},
        ]
    assert read_all.call_count == 1


def test_group_whose_deletion_failed_is_kept(journal: FullJournal, tmp_path: Path) -> None:
    """Otherwise its offsets would reappear after a restart."""
    groups = GroupCoordinator(journal)
    groups.get_or_create("g").offsets["t", 0] = CommittedOffset(offset=1)
    journal.room = 0
    with pytest.raises(NoSpaceError):
        groups.delete("g")
    journal.room = 1_000
    assert groups.find("g") is not None
    groups.delete("g")
    assert GroupCoordinator(reopened(journal, tmp_path)).find("g") is None


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize(("first", "kept"), [("pending", 9), ("committed", 5)])
def test_later_of_two_offsets_is_kept(
    journal: FullJournal, tmp_path: Path, is_restarted: bool, first: str, kept: int
) -> None:
    """One is in a transaction that is committed after both, and after a restart."""

    def commit(groups: GroupCoordinator) -> None:
        offset = CommittedOffset(offset=9, order=groups.next_order())
        groups.get_or_create("g").offsets["t", 0] = offset

    groups = GroupCoordinator(journal)
    if first == "committed":
        commit(groups)
    offsets = TransactionalOffsets(journal, groups)
    offset = CommittedOffset(offset=5, order=groups.next_order())
    offsets.add(ProducerIdAndEpoch(1, 0), "g", TopicPartition("t", 0), offset)
    if first == "pending":
        commit(groups)
    if is_restarted:
        again = reopened(journal, tmp_path)
        groups = GroupCoordinator(again)
        offsets = TransactionalOffsets(again, groups)
    offsets.end(EndTransactionMarker(producer_id=1, epoch=0, is_commit=True))
    assert groups.get_or_create("g").offsets["t", 0].offset == kept
    assert groups.next_order() == 3


def test_order_of_commits_continues_after_a_restart(journal: FullJournal, tmp_path: Path) -> None:
    """Even if the journal contains a high order, such as the time of a clock that was fast."""
    GroupCoordinator(journal).get_or_create("g").offsets["t", 0] = CommittedOffset(order=10**20)
    again = reopened(journal, tmp_path)
    groups = GroupCoordinator(again)
    offsets = TransactionalOffsets(again, groups)
    offset = CommittedOffset(offset=5, order=groups.next_order())
    offsets.add(ProducerIdAndEpoch(1, 0), "g", TopicPartition("t", 0), offset)
    offsets.end(EndTransactionMarker(producer_id=1, epoch=0, is_commit=True))
    assert groups.get_or_create("g").offsets["t", 0].offset == 5


class Transactions:
    """A coordinator with a journal."""

    def __init__(
        self, journal: Journal, find_partition: Callable[[str, int], Partition | None]
    ) -> None:
        self.groups = GroupCoordinator(journal)
        self.offsets = TransactionalOffsets(journal, self.groups)
        self.clock = JumpingClock()
        self.coordinator = TransactionCoordinator(
            BrokerConfig(transaction_version=1),
            journal,
            self.clock,
            find_partition,
            self.offsets,
            DelayedOperationPurgatory(),
        )

    def settle(self) -> None:
        """Retry unfinished operations."""
        self.clock.jump(CHECK_INTERVAL_MS)
        self.coordinator.tick()

    def committed(self) -> list[int]:
        offsets = self.groups.get_or_create("g").offsets
        return [offsets[key].offset for key in sorted(offsets)]

    def state(self) -> TransactionState:
        transaction = self.coordinator.find("x")
        assert transaction is not None
        return transaction.state


@pytest.mark.parametrize("room", range(1, 7))
def test_decided_transaction_is_completed_when_there_is_room_again(
    journal: FullJournal, tmp_path: Path, room: int
) -> None:
    transactions = Transactions(journal, lambda *_: None)
    producer: Any = transactions.coordinator.initialize("x", None, 60_000)
    assert not transactions.coordinator.add("x", producer, [OFFSETS_PARTITION])
    for partition in range(2):
        offset = CommittedOffset(offset=partition + 7)
        transactions.offsets.add(producer, "g", TopicPartition("t", partition), offset)
    journal.room = room
    with contextlib.suppress(OSError):  # The client retries.
        transactions.coordinator.end("x", producer, commit=True, bumps_epoch=False)
    journal.room = 100
    transactions.settle()
    again = Transactions(reopened(journal, tmp_path), lambda *_: None)
    for restored in (transactions, again):
        assert (restored.committed(), restored.state()) == (
            [7, 8],
            TransactionState.COMPLETE_COMMIT,
        )
        assert not restored.offsets.is_unstable("g", TopicPartition("t", 0))
