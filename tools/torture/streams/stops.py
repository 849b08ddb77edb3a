"""The stops of a plan, which processes of a run have reached."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.torture.cluster import ProxiedCluster
from tools.torture.streams.check import TopicWatch
from tools.torture.streams.injection.hooks import at_file, go_file
from tools.torture.streams.plan import Fault, Plan
from tools.torture.streams.scenarios import LOG, SHARED, Sink, Step, Stop


@dataclass(frozen=True, slots=True)
class Reached:
    """A stop that was reached. `process` is the ID of the waiting process, or 0 if unknown."""

    fault: Fault
    number: int
    process: int


class Stops:
    """The stops of a run; `topic` is also the prefix of the transactional ids."""

    def __init__(self, cluster: ProxiedCluster, plan: Plan, folder: Path, topic: str) -> None:
        self._plan = plan
        self._folder = folder
        self._end_txns = cluster.end_txns
        self._waiting = dict(enumerate(plan.faults))
        self._watch = TopicWatch(cluster.bootstrap_servers, topic, plan.source.partitions)
        self._arm(re.escape(topic))
        stops = [asdict(fault.stop) for fault in plan.faults]
        (folder / "steps.json").write_text(json.dumps(stops), encoding="utf-8")

    @property
    def waiting(self) -> list[Fault]:
        """The faults whose steps have not been reached."""
        return list(self._waiting.values())

    @property
    def missed(self) -> bool:
        """True if the step of a fault that is not optional was not reached."""
        return any(not fault.optional for fault in self.waiting)

    def take_reached(self) -> Iterator[Reached]:
        """Yield each fault once, after its step is reached."""
        for number, fault in list(self._waiting.items()):
            process = self._who_is_at(number, fault)
            if process is not None:
                del self._waiting[number]
                yield Reached(fault, number, process)

    def release(self, number: int, word: str = "go") -> None:
        """Release the process at the stop of a fault, or make its step fail (`word`)."""
        if self._plan.faults[number].stop.step is Step.END_TXN:
            self._end_txns.released.set()
        path = go_file(self._folder, number)
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_text(word, encoding="utf-8")
            part.rename(path)

    def close(self) -> None:
        """Release all processes."""
        for number in range(len(self._plan.faults)):
            self.release(number)
        self._watch.close()

    def _who_is_at(self, number: int, fault: Fault) -> int | None:
        """Return the ID of the process at the step (0 if unknown), or None if it is not reached."""
        if fault.stop.step in LOG:
            return 0 if self._watch.count() >= self._records_at(fault) else None
        if fault.stop.step is Step.END_TXN:
            return 0 if self._end_txns.reached.is_set() else None
        at = at_file(self._folder, number)
        return int(at.read_text(encoding="utf-8")) if at.exists() else None

    def _arm(self, prefix: str) -> None:
        """Make the gates delay the commit at which a fault occurs."""
        self._end_txns.arm("", 0)
        for fault in self._plan.faults:
            if fault.stop.step is Step.END_TXN:
                pattern, occurrence = end_txn_of(fault.stop, self._plan.sink)
                self._end_txns.arm(prefix + pattern, occurrence)

    def _records_at(self, fault: Fault) -> int:
        source = self._plan.source
        numbers = source.numbers_of(fault.stop.batch or 0)
        full = fault.stop.step is Step.LOG_FULL
        return source.good_before(numbers.stop if full else numbers.start + len(numbers) // 2)


def end_txn_of(stop: Stop, sink: Sink) -> tuple[str, int]:
    """Return the pattern of transactional ids (after the prefix), and which match is the stop.

    The shared transactions of all batches have the same ID and are distinguished by their order.
    """
    batch = stop.batch
    if sink in SHARED:
        return ("/batch/[^/]+$", 1) if batch is None else ("/stream$", batch + 1)
    of_task = "/batch/[^/]+/" if batch is None else rf"/stream/[^/]+/{batch}/"
    return of_task, stop.hit
