"""The faults that are armed: how often each was triggered, and its random numbers."""

from __future__ import annotations

from random import Random
from threading import Lock
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.faults.parser import parse_fault

if TYPE_CHECKING:
    from spark_kafka_sink.broker.faults.fault import Fault, RequestInfo


class ActiveFault:
    """A fault that is armed; `hits` counts the requests that triggered it."""

    __slots__ = ("_matched", "_rng", "fault", "hits")

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.hits = 0
        self._matched = 0
        self._rng = Random(fault.seed)

    @property
    def is_spent(self) -> bool:
        """Whether it was triggered as often as it may be."""
        return self.fault.next is not None and self.hits >= self.fault.next

    def trigger(self, request: RequestInfo) -> bool:
        """Count a request that matches; return whether it triggers the fault."""
        if self.is_spent or not self.fault.matches(request):
            return False
        self._matched += 1
        if self._matched <= self.fault.after:
            return False
        if self.fault.probability < 1 and self._rng.random() >= self.fault.probability:
            return False
        self.hits += 1
        return True


class Faults:
    """All faults of a cluster; may be used from any thread."""

    __slots__ = ("_armed", "_lock")

    def __init__(self) -> None:
        self._lock = Lock()
        # Guarded by the lock:
        self._armed: list[ActiveFault] = []

    def add(self, fault: Fault | str) -> ActiveFault:
        """Arm a fault, given as such or as text (parser.py).

        Raises:
            ConfigError: the text is no fault.
        """
        active = ActiveFault(parse_fault(fault) if isinstance(fault, str) else fault)
        with self._lock:
            self._armed.append(active)
        return active

    def remove(self, active: ActiveFault) -> None:
        """Disarm a fault; harmless when it is not armed."""
        with self._lock:
            self._armed = [one for one in self._armed if one is not active]

    def clear(self) -> None:
        """Disarm all faults."""
        with self._lock:
            self._armed.clear()

    @property
    def armed(self) -> list[ActiveFault]:
        """The faults that can still be triggered, in the order in which they were added."""
        with self._lock:
            return [one for one in self._armed if not one.is_spent]

    def __bool__(self) -> bool:
        return bool(self._armed)

    def triggered_by(self, request: RequestInfo) -> list[Fault]:
        """The faults that a request triggers; each of them is counted."""
        with self._lock:
            triggered = [one.fault for one in self._armed if one.trigger(request)]
            self._armed = [one for one in self._armed if not one.is_spent]
        return triggered
