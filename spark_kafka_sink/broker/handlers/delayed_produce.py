"""Produce requests with acks=all that wait until enough replicas have their records.

As Kafka's DelayedProduce in its purgatory: kept by topic-partition, looked at again when the
high watermark or the in-sync replicas of one of them change, answered at the latest when the
request's timeout has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.broker.partition.partition import Partition


class Unconfirmed(NamedTuple):
    """Records that wait: high watermark and leader that they need, and their part of the answer."""

    partition: Partition
    required_offset: int
    leader: int
    response: dict[str, Any]

    @property
    def key(self) -> tuple[str, int]:
        """The topic-partition, as the purgatory knows it."""
        return self.partition.topic, self.partition.index


class DelayedProduce:
    """The unconfirmed parts of one request."""

    __slots__ = ("_least", "_waiting")

    def __init__(self, waiting: list[Unconfirmed], least: Callable[[Partition], int]) -> None:
        self._waiting = waiting
        self._least = least

    @property
    def keys(self) -> tuple[tuple[str, int], ...]:
        """The topic-partitions that it waits for."""
        return tuple(one.key for one in self._waiting)

    def try_complete(self) -> bool:
        """Settle what can be settled; return whether nothing waits any longer."""
        self._waiting = [one for one in self._waiting if not self._settled(one)]
        return not self._waiting

    def _settled(self, one: Unconfirmed) -> bool:
        partition = one.partition
        if partition.leader != one.leader:
            one.response["error_code"] = ErrorCode.not_leader_or_follower
            return True
        if partition.high_watermark < one.required_offset:
            return False
        if not partition.log.storage.request_replication(one.required_offset):
            return False
        if len(partition.in_sync) < self._least(partition):
            one.response["error_code"] = ErrorCode.not_enough_replicas_after_append
        return True

    def expire(self) -> None:
        """The time has passed: what is still unconfirmed is REQUEST_TIMED_OUT."""
        if not self.try_complete():
            for one in self._waiting:
                one.response["error_code"] = ErrorCode.request_timed_out
