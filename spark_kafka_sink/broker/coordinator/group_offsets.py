"""The committed offsets of one group, kept in the journal."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.journal import Journal

KIND = "offset"
NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """Where a group's consumer goes on; -1 where nothing was committed.

    `order` grows with each: of two commits the later one stands.
    """

    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str | None = ""
    order: int = field(default_factory=count().__next__, compare=False)


class GroupOffsets(MutableMapping[tuple[str, int], CommittedOffset]):
    """Offsets by topic and partition; what is set here is there again after a restart.

    Args:
        journal: where they are kept.
        group_id: whose they are.
    """

    __slots__ = ("_group_id", "_journal", "_offsets")

    def __init__(self, journal: Journal, group_id: str) -> None:
        self._journal = journal
        self._group_id = group_id
        self._offsets = {
            (str(topic), int(partition)): CommittedOffset(**value)
            for (group, topic, partition), value in journal.all(KIND).items()
            if group == group_id
        }

    def __getitem__(self, topic_partition: tuple[str, int]) -> CommittedOffset:
        return self._offsets[topic_partition]

    def __setitem__(self, topic_partition: tuple[str, int], offset: CommittedOffset) -> None:
        self._offsets[topic_partition] = offset
        value = {
            "offset": offset.offset,
            "leader_epoch": offset.leader_epoch,
            "metadata": offset.metadata,
        }
        self._journal.put(KIND, (self._group_id, *topic_partition), value)

    def __delitem__(self, topic_partition: tuple[str, int]) -> None:
        del self._offsets[topic_partition]
        self._journal.put(KIND, (self._group_id, *topic_partition), None)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)
