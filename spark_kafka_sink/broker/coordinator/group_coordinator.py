"""All consumer groups, by id."""

from __future__ import annotations

from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
from spark_kafka_sink.broker.coordinator.group_offsets import KIND, GroupOffsets
from spark_kafka_sink.broker.storage.journal import Journal


class GroupCoordinator:
    """Finds and creates consumer groups, and runs their timeouts.

    Args:
        journal: holds the offsets that were committed to an earlier broker.
    """

    __slots__ = ("_cached_deadline", "_deadline_is_stale", "_groups", "_journal")

    def __init__(self, journal: Journal | None = None) -> None:
        self._groups: dict[str, ClassicGroup] = {}
        self._deadline_is_stale = True
        self._cached_deadline: float | None = None
        self._journal = journal or Journal()
        for group_id in {str(key[0]) for key in self._journal.all(KIND)}:
            self.get_or_create(group_id)

    def all(self) -> list[ClassicGroup]:
        """Every group."""
        self._deadline_is_stale = True
        return list(self._groups.values())

    def find(self, group_id: str) -> ClassicGroup | None:
        """Find a group."""
        self._deadline_is_stale = True
        return self._groups.get(group_id)

    def peek(self, group_id: str) -> ClassicGroup:
        """Find a group, or return a new empty one without storing it."""
        return self.find(group_id) or ClassicGroup(id=group_id)

    def get_or_create(self, group_id: str) -> ClassicGroup:
        """Find a group, or create an empty one."""
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
            for topic, partition in list(group.offsets):
                if topic == name:
                    del group.offsets[topic, partition]

    def tick(self, now: float) -> None:
        """Call `ClassicGroup.tick` on every group once the next deadline has passed."""
        due = self.next_deadline()
        if due is None or now < due:
            return
        for group in self._groups.values():
            group.tick(now)
        self._deadline_is_stale = True

    def next_deadline(self) -> float | None:
        """When the first group has something to do, in monotonic seconds; None for never.

        The value is cached. Callers change a group only after getting it from `find`,
        `get_or_create` or `all`, so these invalidate the cache.
        """
        if self._deadline_is_stale:
            times = (group.next_deadline() for group in self._groups.values())
            self._cached_deadline = min((time for time in times if time is not None), default=None)
            self._deadline_is_stale = False
        return self._cached_deadline
