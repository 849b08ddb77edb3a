"""Many concurrent runs; each job has its own cluster and drivers."""

from __future__ import annotations

import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from tools.support.kafka_node import NodeError
from tools.torture.cluster import eos_cluster
from tools.torture.streams.check import open_transactions
from tools.torture.streams.drivers import Drivers, class_archive
from tools.torture.streams.run import Result, run
from tools.torture.streams.scenarios import ONCE
from tools.torture.streams.table import OK

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.torture.cluster import EosCluster
    from tools.torture.ledger import Ledger
    from tools.torture.streams.plan import Plan


_WINDOW = 60
"""Number of next plans among which a job looks for one that fits its cluster and drivers."""
_MAX_CLUSTERS_LOST = 5


class Campaign:
    """Execute plans in `folder`; results go to the ledger and, as one line each, to `say`."""

    def __init__(
        self,
        plans: Sequence[Plan],
        folder: Path,
        ledger: Ledger,
        say: Callable[[str], None],
        *,
        keep: bool,
    ) -> None:
        self._folder = folder
        self._ledger = ledger
        self._say = say
        self._keep = keep
        self._java_options = f"-XX:SharedArchiveFile={class_archive()}"
        # The following fields are guarded by the lock.
        self._lock = Lock()
        self._plans = list(plans)
        self._lost_clusters = 0
        self.done = 0
        self.failed = 0

    def run(self, jobs: int) -> None:
        """Run until no plan is left."""
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with ThreadPoolExecutor(jobs) as pool:
                for job in [pool.submit(self._work, number) for number in range(jobs)]:
                    job.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Start no further run."""
        self._plans.clear()

    def _work(self, job: int) -> None:
        while (plan := self._next(job)) is not None:
            try:
                self._on_one_cluster(plan)
            except NodeError as error:
                self._say(f"a new cluster is needed: {error}")
                self._lost_clusters += 1
                if self._lost_clusters > _MAX_CLUSTERS_LOST:
                    raise

    def _on_one_cluster(self, first: Plan) -> None:
        good: list[Result] = []
        plan: Plan | None = first
        with ExitStack() as stack:
            cluster = stack.enter_context(eos_cluster(first.brokers))
            folder = Path(tempfile.mkdtemp(prefix="drivers-", dir=self._folder))
            drivers = Drivers(folder, self._java_options)
            stack.callback(drivers.close)
            while plan is not None:
                own = self._folder / f"{plan.sink}-{plan.seed}"
                result = run(cluster, drivers, plan, own)
                self._note(result, own)
                good += [result] if result.outcome == OK else []
                plan = self._next_like(plan)
            self._left_open(cluster, good)

    def _next(self, job: int) -> Plan | None:
        """Return a plan for a new cluster; jobs start at both ends of the list of cluster kinds."""
        with self._lock:
            window = sorted(self._plans[:_WINDOW], key=lambda plan: (plan.brokers, plan.seed))
            if not window:
                return None
            plan = window[-1 if job % 2 else 0]
            self._plans.remove(plan)
            return plan

    def _next_like(self, last: Plan) -> Plan | None:
        """Return a plan for the same cluster, and for the same drivers if possible."""
        with self._lock:
            fit = [plan for plan in self._plans[:_WINDOW] if plan.brokers == last.brokers]
            if not fit:
                return None
            plan = min(fit, key=lambda plan: (plan.profile != last.profile, plan.seed))
            self._plans.remove(plan)
            return plan

    def _note(self, result: Result, own: Path) -> None:
        with self._lock:
            self._ledger.append(result.line())
            self.done += 1
            self.failed += bool(result.wrong)
        self._say(_describe(result, own))
        if not result.wrong and not self._keep:
            shutil.rmtree(own, ignore_errors=True)

    def _left_open(self, cluster: EosCluster, good: list[Result]) -> None:
        """Count and log transactions that successful runs have left open."""
        topics = {result.topic for result in good if result.plan.sink in ONCE}
        if not topics or not good[0].plan.brokers.lists_transactions:
            return
        found = open_transactions(cluster.bootstrap_servers)
        left = [name for name in found if name.split("/")[0] in topics]
        for name in left:
            self._say(f"left open: {name}")
        with self._lock:
            self.failed += len(left)


def _describe(result: Result, own: Path) -> str:
    line = result.line()
    text = (
        f"{line['sink']:12} seed {line['seed']:5} {line['seconds']:5.1f} s {line['nodes']} nodes "
        f"{line['kind']} at {line['step']}: {line['starts']} starts, {line['lost']} lost, "
        f"{line['doubled']} doubled, {line['aborted']} aborted: {line['result']}"
    )
    further = [*result.wrong[1:6], *([f"see {own}"] if result.wrong else [])]
    lines = [text, *(f"           {each}" for each in further)]
    return "\n".join(lines)
