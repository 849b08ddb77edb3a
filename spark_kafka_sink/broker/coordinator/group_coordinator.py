"""All consumer groups by id, their timeouts and their configs."""

from __future__ import annotations

from spark_kafka_sink.broker.config.topic_config import (
    ConfigKey,
    ConfigType,
    integer_between,
    one_of,
)
from spark_kafka_sink.broker.coordinator.classic_group import ClassicGroup
from spark_kafka_sink.broker.coordinator.committed_offsets import GroupOffsets
from spark_kafka_sink.broker.storage.journal import Journal

_SESSION = integer_between(45_000, 60_000)
_HEARTBEAT = integer_between(5_000, 15_000)
_INTERVAL = integer_between(0, 15_000)
"""Kafka's ranges for configs of groups, in milliseconds."""


def _int_key(default: int, low: int, high: int) -> ConfigKey:
    return ConfigKey(ConfigType.INT, str(default), integer_between(low, high))


def _timing_keys(kind: str) -> dict[str, ConfigKey]:
    return {
        f"{kind}.assignment.interval.ms": ConfigKey(ConfigType.INT, "1000", _INTERVAL),
        f"{kind}.heartbeat.interval.ms": ConfigKey(ConfigType.INT, "5000", _HEARTBEAT),
        f"{kind}.session.timeout.ms": ConfigKey(ConfigType.INT, "45000", _SESSION),
    }


GROUP_KEYS: dict[str, ConfigKey] = {
    **_timing_keys("consumer"),
    **_timing_keys("share"),
    "share.auto.offset.reset": ConfigKey(ConfigType.STRING, "latest", one_of("latest", "earliest")),
    "share.delivery.count.limit": _int_key(5, 2, 10),
    "share.isolation.level": ConfigKey(
        ConfigType.STRING, "read_uncommitted", one_of("read_committed", "read_uncommitted")
    ),
    "share.partition.max.record.locks": _int_key(2_000, 100, 10_000),
    "share.record.lock.duration.ms": _int_key(30_000, 15_000, 60_000),
    "share.renew.acknowledge.enable": ConfigKey(
        ConfigType.BOOLEAN, "true", one_of("true", "false")
    ),
    **_timing_keys("streams"),
    "streams.initial.rebalance.delay.ms": _int_key(3_000, 0, 2**31 - 1),
    "streams.num.standby.replicas": _int_key(0, 0, 2),
}
"""Configs of consumer (KIP-848), share (KIP-932) and Kafka Streams (KIP-1071) groups, by name."""


def broker_name(name: str) -> str:
    """Return the name of the broker config that provides the default of a group config."""
    shared = {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
    return name if name in shared else f"group.{name}"


class GroupCoordinator:
    """Finds and creates consumer groups, and applies their timeouts.

    Args:
        journal: contains the offsets that were committed before a restart.
    """

    def __init__(self, journal: Journal | None = None) -> None:
        self._groups: dict[str, ClassicGroup] = {}
        self._deadline_is_stale = True
        self._cached_deadline: float | None = None
        self._journal = journal or Journal()
        for group_id, stored in GroupOffsets.load_all(self._journal).items():
            self._groups[group_id] = ClassicGroup(id=group_id, offsets=stored)
        offsets = (offset for group in self._groups.values() for offset in group.offsets.values())
        self._order = max((offset.order for offset in offsets), default=0)

    def next_order(self) -> int:
        """Return a number for a commit of an offset; it is higher than those of earlier commits."""
        self._order += 1
        return self._order

    def skip_orders(self, used: int) -> None:
        """Do not return numbers up to `used` from `next_order`."""
        self._order = max(self._order, used)

    def all(self) -> list[ClassicGroup]:
        """Return all groups. Callers do not change their members."""
        return list(self._groups.values())

    def find(self, group_id: str) -> ClassicGroup | None:
        """Return a group, or None if it does not exist. Callers do not change its members."""
        return self._groups.get(group_id)

    def get_or_empty(self, group_id: str) -> ClassicGroup:
        """Return a group, or a new empty group, which is not registered, if it does not exist."""
        self._deadline_is_stale = True
        return self.find(group_id) or ClassicGroup(id=group_id)

    def get_or_create(self, group_id: str) -> ClassicGroup:
        """Return a group. If it does not exist, create and register an empty group."""
        self._deadline_is_stale = True
        group = self.find(group_id)
        if group is None:
            offsets = GroupOffsets(self._journal, group_id)
            group = self._groups[group_id] = ClassicGroup(id=group_id, offsets=offsets)
        return group

    def delete(self, group_id: str) -> None:
        """Delete a group and its offsets.

        Raises:
            OSError: the journal failed. The group still exists.
        """
        self._groups[group_id].offsets.clear()
        del self._groups[group_id]
        self._deadline_is_stale = True

    def forget_topic(self, name: str) -> None:
        """Delete the offsets of all groups for a deleted topic.

        Raises:
            OSError: the journal failed. Some offsets remain.
        """
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
        """Return the time of the next `tick` in monotonic seconds, or None if it has no work.

        The value is cached until a method returns a group whose members callers can change, or
        deletes a group.
        """
        if self._deadline_is_stale:
            times = (group.next_deadline() for group in self._groups.values())
            self._cached_deadline = min((time for time in times if time is not None), default=None)
            self._deadline_is_stale = False
        return self._cached_deadline
