"""One run: topic, faults, troubles, sessions, reading back, checking."""

from __future__ import annotations

import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from tools.support.readers import by_confluent
from tools.torture.check import violations
from tools.torture.network.faults import Schedule
from tools.torture.plan import Plan, Trouble
from tools.torture.troubles import Nemesis, create
from tools.torture.writing import Writer, forget_sessions

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tools.support.readers import ForeignRecord
    from tools.torture.cluster import TortureCluster

_LEAST_S = 1.5
_IN_SYNC_S = 40
_PATIENCE_S = 100
_LOOK_S = 1.0
"""Seconds between two looks at the brokers while the writer ends."""
_LOG_END = 1_000
"""Characters of a broker's log that a result quotes."""


@dataclass(kw_only=True)
class Result:
    """What came out of a run."""

    plan: Plan
    schedule: Schedule
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    writer: Writer | None = None

    @property
    def outcome(self) -> str:
        """ "ok", or the first thing that is wrong."""
        return self.wrong[0][:300] if self.wrong else "ok"

    def line(self) -> dict[str, Any]:
        """For the ledger."""
        sessions = self.writer.done if self.writer else []
        reports = [one.report for one in sessions]
        parts = [part for report in reports for part in report.partitions]
        return {
            "seed": self.plan.seed,
            "scenario": self.plan.name,
            **({"protocol": "SASL_SSL"} if self.plan.secured else {}),
            "faults": dict(sorted(self.schedule.seen.items())),
            "sessions": len(sessions),
            "failed": sum(one.error is not None for one in sessions),
            "records": sum(report.records for report in reports),
            "persisted": sum(report.persisted for report in reports),
            "possibly": sum(part.possibly_persisted for part in parts),
            "not": sum(part.not_persisted for part in parts),
            "retries": sum(report.retries for report in reports),
            "splits": sum(report.splits for report in reports),
            **({"notes": self.notes} if self.notes else {}),
            "outcome": self.outcome,
            "seconds": round(self.seconds, 1),
        }


def run(cluster: TortureCluster, plan: Plan, debug: str = "") -> Result:
    """Carry a plan out; the cluster is healthy again afterwards."""
    schedule = Schedule(seed=plan.seed, kinds=plan.faults, rate=plan.rate)
    result = Result(plan=plan, schedule=schedule)
    started = time.monotonic()
    try:
        _run(cluster, result, debug)
    except Exception:  # noqa: BLE001 - it belongs into the ledger
        result.wrong.append(f"the run itself failed: {traceback.format_exc(limit=-3)}")
    finally:
        schedule.heal()
        cluster.heal()
        for proxy in cluster.all_proxies:
            proxy.schedule = None
            proxy.cut_all()
        result.seconds = time.monotonic() - started
    return result


def _run(cluster: TortureCluster, result: Result, debug: str) -> None:
    plan = result.plan
    topic = f"torture-{plan.seed}-{time.time_ns() // 1_000_000 % 1_000_000}"
    create(cluster, plan, topic)
    way = cluster.client_options(secured=plan.secured)
    writer = result.writer = Writer(plan, way, topic, debug)
    for proxy in cluster.all_proxies:
        proxy.schedule = result.schedule
    _write(cluster, result, writer, topic)
    gone = Trouble.DELETE in plan.troubles
    log = None if gone else _read(cluster, topic)
    result.wrong += violations(plan, writer.done, log)
    with suppress(KafkaException):
        cluster.admin.delete_topic(topic)


def _write(cluster: TortureCluster, result: Result, writer: Writer, topic: str) -> None:
    over = Event()
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer.run, over.is_set)
        try:
            nemesis = Nemesis(cluster, result.plan, topic)
            result.notes = nemesis.notes
            nemesis.run()
            cluster.heal()
            time.sleep(max(0.0, _LEAST_S - (time.monotonic() - started)))
        finally:
            over.set()
            time.sleep(0.3)
            result.schedule.heal()
        try:
            await_writer(writing, cluster, result)
        except TimeoutError:
            result.wrong.append("the writer hangs")
            _show_threads()
        finally:
            forget_sessions()


def await_writer(writing: Future[None], cluster: TortureCluster, result: Result) -> None:
    """Wait for the last sessions; restart brokers that end meanwhile, as no trouble does that.

    Raises:
        TimeoutError: the writer hangs.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        for node in cluster.nodes:
            if not node.running:
                end = node.log_end()[-_LOG_END:]
                result.wrong.append(f"broker {node.node_id} has ended by itself: {end}")
                cluster.restart(node.node_id)
        with suppress(TimeoutError):
            return writing.result(_LOOK_S)
    raise TimeoutError


def _show_threads() -> None:
    for number, frame in sys._current_frames().items():
        sys.stderr.write(f"--- thread {number}\n{''.join(traceback.format_stack(frame))}")


def _read(cluster: TortureCluster, topic: str) -> list[ForeignRecord]:
    """The topic as a foreign client finds it, once all replicas have caught up."""
    deadline = time.monotonic() + _IN_SYNC_S
    client = cluster.admin.client()
    while True:
        found = client.list_topics(topic, timeout=10).topics[topic].partitions.values()
        if all(len(part.isrs) == 3 for part in found):
            return by_confluent(cluster.bootstrap_servers, topic)
        if time.monotonic() > deadline:
            raise TimeoutError(f"replicas of {topic} do not catch up")
        time.sleep(0.1)
