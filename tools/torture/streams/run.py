"""Execute a plan: write a stream while faults occur, then read and check the topics."""

import argparse
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from tools.support.readers import UNCOMMITTED
from tools.torture.cluster import Brokers, ProxiedCluster, proxied_cluster
from tools.torture.harness import STREAMS, TORN, Result, Scenarios
from tools.torture.streams.check import await_stable, findings, read, unmet_aim
from tools.torture.streams.injection.hooks import BUG, Bug, trace
from tools.torture.streams.plan import Choice, Plan, draw
from tools.torture.streams.scenarios import ONCE, SHARED, Kind, Sink, Step, Stop
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
_SEED = 7


def stream_plans(arguments: argparse.Namespace) -> list[Plan]:
    """Return the plans that the command line selects."""
    choice = Choice(release=arguments.kafka, two_phase=arguments.two_phase)
    return [
        draw(seed, sink, choice)
        for sink in arguments.sink or Sink
        for seed in (
            [arguments.seed] if arguments.seed else STREAMS.new_seeds(arguments.runs, sink=sink)
        )
    ]


class StreamScenarios(Scenarios[Plan, ProxiedCluster]):
    """Scenarios with Spark streams and jobs."""

    ledger = STREAMS
    shown = (
        "{sink:12} seed {seed:5} {seconds:5.1f} s {nodes} nodes {kind} at {step}: {starts} starts, "
        "{lost} lost, {doubled} doubled, {aborted} aborted: {result}"
    )
    concurrent = 2

    def new_cluster(self, brokers: Brokers) -> ProxiedCluster:
        """Return a new cluster, which is not started."""
        return proxied_cluster(brokers)

    def execute(self, cluster: ProxiedCluster, result: Result[Plan], folder: Path) -> None:
        """Execute a plan in new topics, and delete the topics."""
        plan, source = result.plan, result.plan.source
        result.facts = dict.fromkeys(("starts", "aborted", "lost", "doubled"), 0)
        if plan.bug:
            (folder / BUG).write_text(plan.bug, encoding="utf-8")
        topic = f"eos-{plan.seed}-{time.time_ns() // 1_000_000 % 1_000_000}"
        dead = f"{topic}-dead"
        cluster.admin.create_topics(
            NewTopic(topic, source.partitions, plan.nodes), NewTopic(dead, 1, plan.nodes)
        )
        supervisor = Supervisor(cluster, plan, folder, _driver_spec(cluster, plan, topic, folder))
        try:
            _run_plan(cluster, result, supervisor, folder)
        finally:
            result.facts["starts"], result.is_torn = supervisor.starts, supervisor.is_torn
            supervisor.close()
        if supervisor.stops.missed:
            result.wrong.append("idle: the step of the fault was not reached")
        logs = (
            path.read_text(errors="replace", encoding="utf-8")
            for path in folder.glob("driver-*/driver.log")
        )
        if unmet := unmet_aim(plan, folder, "".join(logs)):
            result.wrong.append(f"idle: {unmet}")
        _check_topics(cluster, result, supervisor, topic)
        trace(folder, f"HARNESS {result.outcome}")
        with suppress(KafkaException):
            cluster.admin.delete_topics(topic, dead)


def _run_plan(
    cluster: ProxiedCluster, result: Result[Plan], supervisor: Supervisor, folder: Path
) -> None:
    plan, source = result.plan, result.plan.source
    last = source.batches - 1
    source.write(folder / "input", range(source.batches if plan.job else last))
    supervisor.run(_TIMEOUT_S)
    cluster.heal()
    # For a stream, a batch without faults cleans up after killed attempts. A job is started again,
    # as if its scheduler had not detected its success.
    if not supervisor.is_torn:
        if not plan.job:
            source.write(folder / "input", [last])
        supervisor.run(_TIMEOUT_S)
    if plan.kind is Kind.OTHER_CHECKPOINT:
        refused = supervisor.is_refused(str(folder / "checkpoint-2"))
        result.wrong += [] if refused else ["a new checkpoint is not rejected"]


def _driver_spec(cluster: ProxiedCluster, plan: Plan, topic: str, folder: Path) -> dict[str, Any]:
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


def _check_topics(
    cluster: ProxiedCluster, result: Result[Plan], supervisor: Supervisor, topic: str
) -> None:
    servers, plan, dead = cluster.bootstrap_servers, result.plan, f"{topic}-dead"
    for name in (topic, dead, *([_DECISIONS] if plan.sink in ONCE else [])):
        if held := await_stable(servers, name, _STABLE_S):
            result.wrong.append(f"{name}: a transaction is open: readers are blocked from {held}")
    records = read(servers, topic)
    checked = findings(plan.source, records, read(servers, dead), once=plan.sink in ONCE)
    result.facts["aborted"] = len(read(servers, topic, UNCOMMITTED)) - len(records)
    result.facts["doubled"] = checked.doubled
    if result.is_torn:
        failure = supervisor.failures[-1]
        result.wrong += [] if plan.must_tear else [f"torn: {failure}"]
        result.wrong += [text for text in checked.wrong if "LOST" not in text]
        if topic not in failure:
            result.wrong.append(f"the error does not name the topic: {failure}")
    else:
        result.wrong += checked.wrong
        result.wrong += ["the torn batch was not detected"] if plan.must_tear else []
    result.facts["lost"] = 0 if result.outcome == TORN else checked.lost


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, and the kind of fault that reveals it at `steps` of batch 0.

    The result of the run must contain one of `signs`.
    """

    bug: Bug
    kind: Kind
    steps: tuple[Stop, ...]
    signs: tuple[str, ...]

    def plan(self) -> Plan:
        """Return a small deterministic plan that reveals the bug."""
        plan = draw(_SEED, Sink.EXACTLY_ONCE, Choice(kind=self.kind, nodes=1))
        source = replace(
            plan.source,
            rows=(45, 50, 45, 0, 45, 45),
            files_per_batch=2,
            partitions=3,
            dead=frozenset(),
            slow=frozenset(),
        )
        faults = tuple(
            replace(fault, stop=stop) for fault, stop in zip(plan.faults, self.steps, strict=False)
        )
        return replace(plan, source=source, faults=faults, bug=self.bug)


def _stop_at(step: Step, hit: int = 1, after: int | None = None) -> Stop:
    return Stop(step=step, batch=0, hit=hit, after=after)


PLANTED = (
    Planted(
        Bug.MARKER_NOT_CHECKED,
        Kind.DRIVER_KILLED_AFTER_COMMIT,
        (_stop_at(Step.COMMIT_ENDED),),
        ("DOUBLED",),
    ),
    Planted(Bug.QUERY_NOT_COMPARED, Kind.OTHER_CHECKPOINT, (), ("is not rejected",)),
    Planted(
        Bug.READ_BEFORE_FENCE,
        Kind.DRIVERS_INTERLEAVED,
        (_stop_at(Step.FENCING), _stop_at(Step.APPENDED, 2, after=0)),
        ("DOUBLED",),
    ),
    Planted(
        Bug.ABORT_DOES_NOT_READ, Kind.COMMIT_RAISES, (_stop_at(Step.APPENDED),), ("torn:", "LOST")
    ),
    Planted(
        Bug.DECIDED_AFTER_END,
        Kind.DRIVER_KILLED_DECIDING,
        (_stop_at(Step.APPENDING),),
        ("DOUBLED",),
    ),
    Planted(
        Bug.ATTEMPT_LEFT_OUT,
        Kind.TASK_WAKES_LATE,
        (_stop_at(Step.TASK_OPENING), _stop_at(Step.APPENDED, after=0)),
        ("torn:", "LOST"),
    ),
    Planted(
        Bug.FENCED_IS_SUCCESS,
        Kind.TORN_BY_OTHERS,
        (_stop_at(Step.APPENDED),),
        ("LOST", "not noticed"),
    ),
)


def find_planted_bugs() -> bool:
    """Run the planted bugs and print the results; return True if all bugs are found."""
    missed = 0
    scenarios = StreamScenarios()
    with scenarios.new_cluster(Brokers()) as cluster:
        for planted in PLANTED:
            result = scenarios.run(cluster, planted.plan())
            is_detected = any(sign in text for text in result.wrong for sign in planted.signs)
            missed += not is_detected
            word = "found" if is_detected else "MISSED"
            print(f"{word:7} {planted.bug} ({planted.kind}): {result.outcome}", flush=True)
    return not missed
