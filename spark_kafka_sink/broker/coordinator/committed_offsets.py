"""The committed offsets of a consumer group."""

from __future__ import annotations

from collections import UserDict
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_kafka_sink.broker.storage.journal import Journal

_KIND = "offset"
"""The kind of the journal's entries."""
_NO_OFFSET = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """The offset from which a group continues to read, or -1 if no offset is committed."""

    offset: int = _NO_OFFSET
    leader_epoch: int = -1
    metadata: str | None = ""
    order: int = field(default=0, compare=False)
    """The number of the commit (`GroupCoordinator.next_order`). If there are several commits for a
    partition, the one with the highest number applies.
    """


class GroupOffsets(UserDict[tuple[str, int], CommittedOffset]):
    """Committed offsets by topic and partition, stored across restarts.

    Args:
        journal: stores the offsets.
        group_id: the group that has committed the offsets.
    """

    def __init__(self, journal: Journal, group_id: str) -> None:
        self._journal = journal
        self._group_id = group_id
        self.data = {}

    @classmethod
    def load_all(cls, journal: Journal) -> dict[str, GroupOffsets]:
        """Return the stored offsets of all groups by group id."""
        groups: dict[str, GroupOffsets] = {}
        for (group, topic, partition), value in journal.all(_KIND).items():
            offsets = groups.setdefault(str(group), cls(journal, str(group)))
            offsets.data[str(topic), int(partition)] = CommittedOffset(**value)
        return groups

    def __setitem__(self, topic_partition: tuple[str, int], offset: CommittedOffset) -> None:
        self._journal.put(_KIND, (self._group_id, *topic_partition), asdict(offset))
        self.data[topic_partition] = offset

    def __delitem__(self, topic_partition: tuple[str, int]) -> None:
        self._journal.put(_KIND, (self._group_id, *topic_partition), None)
        del self.data[topic_partition]
