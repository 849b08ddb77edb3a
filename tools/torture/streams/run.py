"""Run a plan: write a stream while faults occur, then read and check the topics."""

import shutil
import subprocess
import time
import traceback
from collections import deque
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from tools.support.jars import ROOT
from tools.support.kafka_node import NodeError
from tools.support.readers import UNCOMMITTED
from tools.torture.cluster import EosCluster, eos_cluster
from tools.torture.ledger import OK, STREAMS, TORN
from tools.torture.streams.check import (
    Findings,
    await_stable,
    findings,
    read,
    unmet_aim,
)
from tools.torture.streams.injection.hooks import BUG, trace
from tools.torture.streams.plan import Plan
from tools.torture.streams.scenarios import ONCE, SHARED, Kind, Sink
from tools.torture.streams.supervisor import Supervisor

_DECISIONS = "__kafkaprod_decisions"
_TIMEOUT_S = 240.0
_STABLE_S = 60.0
_OPTIONS = {
    "kafka.request.timeout.ms": "3000",
    "kafka.delivery.timeout.ms": "120000",
    "kafka.max.block.ms": "120000",  # A step can wait for another driver to start.
    "kafka.reconnect.backoff.max.ms": "300",
    "kafka.linger.ms": "0",
}
_TOLERANT = {"errors.tolerance": "all"}


@dataclass(kw_only=True)
class Result:
    """The result of a run; `starts` is the number of times that the stream was started."""

    plan: Plan
    commit: str
    topic: str = ""
    seconds: float = 0.0
    starts: int = 0
    aborted: int = 0
    is_torn: bool = False
    found: Findings = field(default_factory=lambda: Findings(lost=0, doubled=0, wrong=()))
    wrong: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        """The outcome: "ok", "torn" (an expected torn batch), or the first violation."""
        if self.wrong:
            return self.wrong[0][:300]
        return TORN if self.is_torn else OK

    def line(self) -> dict[str, Any]:
        """Return the result in the form of the ledger."""
        return {
            "kind": self.plan.kind,
            "step": self.plan.where,
            "sink": self.plan.sink,
            "seed": self.plan.seed,
            "nodes": self.plan.nodes,
            "kafka": self.plan.brokers.release,
            "two_phase": self.plan.brokers.two_phase,
            "records": self.plan.source.total,
            "starts": self.starts,
            "aborted": self.aborted,
            "lost": 0 if self.outcome == TORN else self.found.lost,
            "doubled": self.found.doubled,
            "result": self.outcome,
            "seconds": round(self.seconds, 1),
            "commit": self.commit,
        }


def run(cluster: EosCluster, plan: Plan, folder: Path) -> Result:
    """Execute a plan in a new, empty `folder`; the folder is not deleted afterwards."""
    result = Result(plan=plan, commit=commit_id())
    started = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "plan.txt").write_text(f"{plan}\n")
    if plan.bug:
        (folder / BUG).write_text(plan.bug)
    try:
        _run(cluster, result, folder)
    except Exception:  # noqa: BLE001 - the ledger records it
        result.wrong.append(f"the run itself failed: {traceback.format_exc(limit=-3)}")
    finally:
        cluster.heal()
        result.seconds = time.monotonic() - started
        trace(folder, f"HARNESS {result.outcome}")
    return result


def commit_id() -> str:
    """Return the Git commit of the running code."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


def _run(cluster: EosCluster, result: Result, folder: Path) -> None:
    plan, source = result.plan, result.plan.source
    stamp = time.time_ns() // 1_000_000 % 1_000_000
    topic = result.topic = f"eos-{plan.seed}-{stamp}"
    dead = f"{topic}-dead"
    cluster.admin.create_topics(
        NewTopic(topic, source.partitions, plan.nodes), NewTopic(dead, 1, plan.nodes)
    )
    last = source.batches - 1
    source.write(folder / "input", range(source.batches if plan.job else last))
    supervisor = Supervisor(cluster, plan, folder, _spec(cluster, plan, topic, folder))
    try:
        supervisor.run(_TIMEOUT_S)
        cluster.heal()
        # For a stream, a batch without faults cleans up after killed attempts. A job is started
        # again, as if its scheduler had not detected its success.
        if not supervisor.is_torn:
            if not plan.job:
                source.write(folder / "input", [last])
            supervisor.run(_TIMEOUT_S)
        if plan.kind is Kind.OTHER_CHECKPOINT:
            refused = supervisor.is_refused(str(folder / "checkpoint-2"))
            result.wrong += [] if refused else ["a new checkpoint is not rejected"]
    finally:
        result.starts, result.failures = supervisor.starts, supervisor.failures
        result.is_torn = supervisor.is_torn
        supervisor.close()
    if supervisor.stops.missed:
        result.wrong.append("idle: the step of the fault was not reached")
    logs = (path.read_text(errors="replace") for path in folder.glob("driver-*/driver.log"))
    if unmet := unmet_aim(plan, folder, "".join(logs)):
        result.wrong.append(f"idle: {unmet}")
    _check(cluster, result, topic, dead)
    with suppress(KafkaException):
        cluster.admin.delete_topics(topic, dead)


def _spec(cluster: EosCluster, plan: Plan, topic: str, folder: Path) -> dict[str, Any]:
    ours = plan.sink is not Sink.SPARK
    options = {"kafka.bootstrap.servers": cluster.proxied_servers, "topic": topic, **_OPTIONS}
    shared = plan.sink in SHARED
    if ours and not shared:
        options |= {**_TOLERANT, "errors.deadletterqueue.topic.name": f"{topic}-dead"}
    if plan.sink in ONCE:
        options |= {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": topic}
        options |= {"batchId": "2026-11-20"} if plan.job else {}
        options |= {"twoPhaseCommit": "true"} if plan.brokers.two_phase else {}
        options |= {"atomicBatch": "true"} if shared else {}
        if plan.timeout_ms is not None:
            options["kafka.transaction.timeout.ms"] = str(plan.timeout_ms)
    return {
        "format": "kafkaprod" if ours else "kafka",
        "topic": topic,
        "input": str(folder / "input"),
        "checkpoint": str(folder / "checkpoint"),
        "files": plan.source.files_per_batch,
        "shuffled": plan.shuffled,
        "job": plan.job,
        "explicit": plan.source.explicit,
        "owned_partitions": plan.source.partitions if shared else 0,
        "options": options,
    }


def _check(cluster: EosCluster, result: Result, topic: str, dead: str) -> None:
    servers, plan = cluster.bootstrap_servers, result.plan
    for name in (topic, dead, *([_DECISIONS] if plan.sink in ONCE else [])):
        if held := await_stable(servers, name, _STABLE_S):
            result.wrong.append(f"{name}: a transaction is open: readers are blocked from {held}")
    found = read(servers, topic)
    result.found = findings(plan.source, found, read(servers, dead), once=plan.sink in ONCE)
    result.aborted = len(read(servers, topic, UNCOMMITTED)) - len(found)
    if not result.is_torn:
        result.wrong += result.found.wrong
        result.wrong += ["the torn batch was not detected"] if plan.must_tear else []
        return
    result.wrong += [] if plan.must_tear else [f"torn: {result.failures[-1]}"]
    result.wrong += [text for text in result.found.wrong if "LOST" not in text]
    if topic not in result.failures[-1]:
        result.wrong.append(f"the error does not name the topic: {result.failures[-1]}")


_JOBS = 2
_MAX_CLUSTERS_LOST = 5


class Campaign:
    """Executes plans in `folder`; adds the results to the ledger and prints them."""

    def __init__(self, plans: Iterable[Plan], folder: Path) -> None:
        self._folder = folder
        ordered = sorted(plans, key=lambda plan: (plan.brokers, plan.seed))
        groups = groupby(ordered, key=lambda plan: plan.brokers)
        # Another thread adds results; deques are thread-safe.
        self._groups = deque(deque(group) for _, group in groups)
        self._lock = Lock()
        self.done = 0
        self.failed = 0

    def run(self) -> None:
        """Run all plans, on two clusters at a time."""
        try:
            with ThreadPoolExecutor(_JOBS) as pool:
                for job in [pool.submit(self._work) for _ in range(_JOBS)]:
                    job.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
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

    def _on_one_cluster(self, plans: deque[Plan]) -> None:
        with eos_cluster(plans[0].brokers) as cluster:
            while plans:
                plan = plans.popleft()
                own = self._folder / f"{plan.sink}-{plan.seed}"
                self._note(run(cluster, plan, own), own)

    def _note(self, result: Result, own: Path) -> None:
        with self._lock:
            STREAMS.append(result.line())
            self.done += 1
            self.failed += bool(result.wrong)
        print(_describe(result, own), flush=True)
        if not result.wrong:
            shutil.rmtree(own, ignore_errors=True)


def _describe(result: Result, own: Path) -> str:
    text = (
        "{sink:12} seed {seed:5} {seconds:5.1f} s {nodes} nodes {kind} at {step}: {starts} starts, "
        "{lost} lost, {doubled} doubled, {aborted} aborted: {result}"
    ).format(**result.line())
    further = [*result.wrong[1:6], f"see {own}"] if result.wrong else []
    return "\n           ".join([text, *further])
