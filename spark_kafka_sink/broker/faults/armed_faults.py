"""The faults of a running cluster, and when requests trigger them."""

from __future__ import annotations

from random import Random
from threading import Lock
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.faults.fault_text import parse_fault

if TYPE_CHECKING:
    from spark_kafka_sink.broker.faults.fault import Fault, RequestProperties


class ActiveFault:
    """An armed fault. `hits` is the number of requests that have triggered it."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.hits = 0
        self._matched = 0
        self._rng = Random(fault.seed)

    @property
    def is_spent(self) -> bool:
        """True if the fault has reached its maximum number of triggers."""
        return self.fault.next is not None and self.hits >= self.fault.next

    def trigger(self, request: RequestProperties) -> bool:
        """Return True if a request triggers the fault. Every matching request is counted."""
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
    """All faults of a cluster. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        # Guarded by `_lock`:
        self._armed: list[ActiveFault] = []

    def add(self, fault: Fault | str) -> ActiveFault:
        """Arm a fault, given as a `Fault` or in its text form.

        Raises:
            ConfigError: the text is not a valid fault.
        """
        active = ActiveFault(parse_fault(fault) if isinstance(fault, str) else fault)
        with self._lock:
            self._armed.append(active)
        return active

    def remove(self, active: ActiveFault) -> None:
        """Disarm a fault. Has no effect if the fault is not armed."""
        with self._lock:
            self._armed = [armed for armed in self._armed if armed is not active]

    def clear(self) -> None:
        """Disarm all faults."""
        with self._lock:
            self._armed.clear()

    @property
    def armed(self) -> list[ActiveFault]:
        """The faults that can still be triggered, in the order in which they were added."""
        with self._lock:
            return [armed for armed in self._armed if not armed.is_spent]

    def __bool__(self) -> bool:
        # Without the lock, because it is called for every request: one read of a list is atomic.
        return bool(self._armed)

    def triggered_by(self, request: RequestProperties) -> list[Fault]:
        """Return the faults that a request triggers. Every matching fault counts the request."""
        with self._lock:
            triggered = [armed.fault for armed in self._armed if armed.trigger(request)]
            self._armed = [armed for armed in self._armed if not armed.is_spent]
        return triggered
