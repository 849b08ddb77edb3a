"""All consumer groups, by id."""

from __future__ import annotations

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
from spark_kafka_sink.broker.coordinator.group_offsets import KIND, GroupOffsets
from spark_kafka_sink.broker.storage.journal import Journal


class GroupCoordinator:
    """All groups by id.

    Args:
        journal: holds the offsets that were committed to an earlier broker.
    """

    __slots__ = ("_due", "_groups", "_journal", "_touched")

    def __init__(self, journal: Journal | None = None) -> None:
        self._groups: dict[str, ClassicGroup] = {}
        self._touched = True
        self._due: float | None = None
        self._journal = journal or Journal()
        for group_id in {str(key[0]) for key in self._journal.all(KIND)}:
            self.get(group_id)

    def all(self) -> list[ClassicGroup]:
        """Every group."""
        self._touched = True
        return list(self._groups.values())

    def find(self, group_id: str) -> ClassicGroup | None:
        """Find a group."""
        self._touched = True
        return self._groups.get(group_id)

    def peek(self, group_id: str) -> ClassicGroup:
        """Find a group, or an empty one that is not kept: not every request creates groups."""
        return self.find(group_id) or ClassicGroup(id=group_id)

    def get(self, group_id: str) -> ClassicGroup:
        """Find a group, or begin it."""
        group = self.find(group_id)
        if group is None:
            offsets = GroupOffsets(self._journal, group_id)
            group = self._groups[group_id] = ClassicGroup(id=group_id, offsets=offsets)
        return group

    def delete(self, group_id: str) -> None:
        """Forget a group and its offsets."""
        self._groups.pop(group_id).offsets.clear()

    def forget_topic(self, name: str) -> None:
        """Drop all groups' offsets of a topic that is deleted."""
        for group in self._groups.values():
            for topic_partition in [
                topic_partition for topic_partition in group.offsets if topic_partition[0] == name
            ]:
                del group.offsets[topic_partition]

    def tick(self, now: float) -> None:
        """See `ClassicGroup.tick`; nobody is looked at before time."""
        due = self.next_deadline()
        if due is None or now < due:
            return
        for group in self._groups.values():
            group.tick(now)
        self._touched = True

    def next_deadline(self) -> float | None:
        """When the first group has something to do, in monotonic seconds; None for never.

        A group is changed only by those who have found it here, so the time is computed anew only
        after `find`, `get` or `all`.
        """
        if self._touched:
            times = (group.next_deadline() for group in self._groups.values())
            self._due = min((time for time in times if time is not None), default=None)
            self._touched = False
        return self._due
