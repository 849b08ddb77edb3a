"""The harness: runs the plans of a scenario set on clusters, and records the results."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from itertools import count, groupby, islice
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from tools.support.jars import ROOT
from tools.support.kafka_node import NodeError
from tools.torture.cluster import Brokers, ProxiedCluster

C = TypeVar("C", bound=ProxiedCluster)
_MAX_CLUSTERS_LOST = 5
OK, TORN = "ok", "torn"
"""Outcomes of successful runs: no violation, or an expected torn batch that was detected."""


class Plan(Protocol):
    """All parameters of a run except the cluster. They depend only on the seed."""

    @property
    def seed(self) -> int: ...
    @property
    def brokers(self) -> Brokers: ...
    @property
    def labels(self) -> dict[str, Any]:
        """The fields of the run's line in the ledger that do not depend on its result."""


P = TypeVar("P", bound=Plan)


@dataclass(kw_only=True)
class Result(Generic[P]):
    """The result of a run: violations in `wrong`, and additional fields for the ledger."""

    plan: P
    wrong: list[str] = field(default_factory=list)
    is_torn: bool = False
    facts: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """The outcome: "ok", "torn" (an expected torn batch), or the first violation."""
        if self.wrong:
            return self.wrong[0][:300]
        return TORN if self.is_torn else OK

    def line(self) -> dict[str, Any]:
        """Return the result in the form of the ledger."""
        last = {"result": self.outcome, "seconds": round(self.seconds, 1), "commit": commit_id()}
        return {**self.plan.labels, **self.facts, **last}


@cache
def commit_id() -> str:
    """Return the Git commit of the running code."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.check_output(command, cwd=ROOT, text=True, encoding="utf-8").strip()


class Scenarios(ABC, Generic[P, C]):
    """A set of scenarios. The files of its runs are in a new folder, or in `folder`."""

    ledger: ClassVar[Ledger]
    shown: ClassVar[str]
    """The format of the text about a run, from the fields of its line in the ledger."""
    concurrent: ClassVar[int] = 1
    """Number of clusters on which plans run concurrently."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="torture-"))
        # Other threads add results; deques are thread-safe.
        self._groups: deque[deque[P]] = deque()
        self._lock = Lock()
        self.done = 0
        self.failed: list[int] = []
        """The seeds of the failed runs."""

    @abstractmethod
    def new_cluster(self, brokers: Brokers) -> C:
        """Return a new cluster, which is not started."""

    @abstractmethod
    def execute(self, cluster: C, result: Result[P], folder: Path) -> None:
        """Execute the plan of `result` in an empty folder, and add violations and facts to it."""

    def run(self, cluster: C, plan: P) -> Result[P]:
        """Execute a plan, then repair the cluster; the files of a failed run are kept."""
        result, started, folder = Result(plan=plan), time.monotonic(), self.folder_of(plan)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "plan.txt").write_text(f"{plan}\n", encoding="utf-8")
        try:
            self.execute(cluster, result, folder)
        except Exception as error:  # noqa: BLE001 - the ledger records it
            trace = "".join(traceback.format_tb(error.__traceback__, -3)).replace(f"{ROOT}/", "")
            result.wrong.append(f"the run itself failed: {error!r}\n{trace}")
        finally:
            cluster.heal()
            result.seconds = time.monotonic() - started
        if not result.wrong:
            shutil.rmtree(folder, ignore_errors=True)
        return result

    def folder_of(self, plan: P) -> Path:
        """Return the folder of a run."""
        return self.folder / f"{plan.labels.get('sink', 'producer')}-{plan.seed}"

    def run_all(self, plans: Iterable[P]) -> None:
        """Run plans, add the results to the ledger and print them. SIGTERM ends the current runs.

        Raises:
            NodeError: too many clusters failed.
        """
        ordered = sorted(plans, key=lambda plan: (plan.brokers, plan.seed))
        groups = groupby(ordered, key=lambda plan: plan.brokers)
        self._groups.extend(deque(group) for _, group in groups)
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        try:
            with ThreadPoolExecutor(self.concurrent) as pool:
                for job in [pool.submit(self._work) for _ in range(self.concurrent)]:
                    job.result()
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        """Do not start further runs."""
        for group in self._groups:
            group.clear()

    def _work(self) -> None:
        """Run groups of plans; start a new cluster for a group if its cluster fails."""
        while self._groups:
            plans = self._groups.popleft()
            lost = 0
            while plans:
                try:
                    self._on_one_cluster(plans)
                except NodeError as error:
                    print(f"starting a new cluster: {error}", flush=True)
                    lost += 1
                    if lost > _MAX_CLUSTERS_LOST:
                        raise

    def _on_one_cluster(self, plans: deque[P]) -> None:
        with self.new_cluster(plans[0].brokers) as cluster:
            while plans:
                self._record(self.run(cluster, plans.popleft()))

    def _record(self, result: Result[P]) -> None:
        with self._lock:
            self.ledger.append(result.line())
            self.done += 1
            self.failed += [result.plan.seed] if result.wrong else []
        further = [*result.wrong[1:6], f"see {self.folder_of(result.plan)}"]
        text = self.shown.format(**result.line())
        print("\n           ".join([text, *(further if result.wrong else [])]), flush=True)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The results of all runs, in the file `path`."""

    path: Path

    def lines(self) -> list[dict[str, Any]]:
        """Return the results of all runs."""
        if not self.path.exists():
            return []
        return [
            json.loads(line)
            for line in self.path.read_text(encoding="utf-8").splitlines()
            if line.strip()
        ]

    def new_seeds(self, seeds: int, **labels: object) -> list[int]:
        """Return the `seeds` lowest seeds that no run with these labels has used."""
        done = {line["seed"] for line in self.lines() if labels.items() <= line.items()}
        return list(islice((seed for seed in count(1) if seed not in done), seeds))

    def latest_streams(self) -> list[dict[str, Any]]:
        """Return the latest result for each sink and seed."""
        defaults = {"kafka": "4.3.1", "two_phase": False}
        lines = ({**defaults, **line} for line in self.lines())
        return list({(line["sink"], line["seed"]): line for line in lines}.values())

    def append(self, line: dict[str, Any]) -> None:
        """Append the result of a run."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


PRODUCER = Ledger(Path(__file__).parent / "producer" / "ledger.jsonl")
STREAMS = Ledger(Path(__file__).parent / "streams" / "ledger.jsonl")
