"""The faults of a run that wait for their steps, and the processes that wait at these."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.torture_eos.kafka.reading import TopicWatch
from tools.torture_eos.plans.kinds import SHARED
from tools.torture_eos.plans.steps import LOG, Step
from tools.torture_eos.seam.reporting import at_file, go_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.torture_eos.kafka.cluster import EosCluster
    from tools.torture_eos.plans.kinds import Sink
    from tools.torture_eos.plans.plan import Fault, Plan
    from tools.torture_eos.plans.steps import Stop


@dataclass(frozen=True, slots=True)
class Reached:
    """Process `process` waits at the stop of the `number`th fault; 0 where nobody does."""

    fault: Fault
    number: int
    process: int


class Stops:
    """Of one run, in `folder`; `topic` is also what its transactional ids begin with."""

    def __init__(self, cluster: EosCluster, plan: Plan, folder: Path, topic: str) -> None:
        self._plan = plan
        self._folder = folder
        self._end_txns = cluster.end_txns
        self._waiting = dict(enumerate(plan.faults))
        self._watch = TopicWatch(cluster.bootstrap_servers, topic, plan.source.partitions)
        self._arm(re.escape(topic))
        stops = [fault.stop.as_json() for fault in plan.faults]
        (folder / "steps.json").write_text(json.dumps(stops))

    @property
    def waiting(self) -> list[Fault]:
        """Those whose steps have not been reached."""
        return list(self._waiting.values())

    @property
    def missed(self) -> bool:
        """Whether nobody has come to a step at which somebody must."""
        return any(not fault.optional for fault in self.waiting)

    def take_reached(self) -> Iterator[Reached]:
        """Each fault once, when its step is reached."""
        for number, fault in list(self._waiting.items()):
            process = self._who_is_at(number, fault)
            if process is not None:
                del self._waiting[number]
                yield Reached(fault, number, process)

    def let_go(self, number: int, word: str = "go") -> None:
        """Whoever waits at the stop of this fault goes on, or fails."""
        if self._plan.faults[number].stop.step is Step.END_TXN:
            self._end_txns.released.set()
        path = go_file(self._folder, number)
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_text(word)
            part.rename(path)

    def close(self) -> None:
        """Nobody waits any more."""
        for number in range(len(self._plan.faults)):
            self.let_go(number)
        self._watch.close()

    def _who_is_at(self, number: int, fault: Fault) -> int | None:
        """The process that has reached the step; 0 where the harness has seen it itself."""
        if fault.stop.step in LOG:
            return 0 if self._watch.count() >= self._records_at(fault) else None
        if fault.stop.step is Step.END_TXN:
            return 0 if self._end_txns.reached.is_set() else None
        at = at_file(self._folder, number)
        return int(at.read_text()) if at.exists() else None

    def _arm(self, prefix: str) -> None:
        """Have the gates hold back the commit that a fault waits for."""
        self._end_txns.arm("", 0)
        for fault in self._plan.faults:
            if fault.stop.step is Step.END_TXN:
                pattern, wanted = end_txn_of(fault.stop, self._plan.sink)
                self._end_txns.arm(prefix + pattern, wanted)

    def _records_at(self, fault: Fault) -> int:
        source = self._plan.source
        numbers = source.numbers_of(fault.stop.batch or 0)
        full = fault.stop.step is Step.LOG_FULL
        return source.good_before(numbers.stop if full else numbers.start + len(numbers) // 2)


def end_txn_of(stop: Stop, sink: Sink) -> tuple[str, int]:
    """How the transactional ids of the stop's batch go on behind the prefix, and which is meant.

    The shared transactions of a stream's batches have one id: they are told apart by their order.
    """
    batch = stop.batch
    if sink in SHARED:
        return ("/batch/[^/]+$", 1) if batch is None else ("/stream$", batch + 1)
    of_task = "/batch/[^/]+/" if batch is None else rf"/stream/[^/]+/{batch}/"
    return of_task, stop.hit
