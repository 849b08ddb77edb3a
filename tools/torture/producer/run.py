"""Execute a plan: create a topic, write to it while faults occur, read it, and check the result."""

import argparse
import faulthandler
import logging
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from threading import Event

from confluent_kafka import KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tools.support.readers import ForeignRecord, by_confluent
from tools.support.waiting import poll
from tools.torture.cluster import Brokers, SecuredCluster
from tools.torture.harness import PRODUCER, Result, Scenarios
from tools.torture.producer.check import violations
from tools.torture.producer.plan import ClusterFault, Plan, draw
from tools.torture.producer.writer import Writer, close_sessions
from tools.torture.proxy_faults import Schedule

_CONTEXTS = "broker,metadata,queue,msg,protocol,eos"
_WAIT_S = 20
_MIN_S = 1.5
_IN_SYNC_S = 40
_TIMEOUT_S = 100
_POLL_S = 1.0
"""Seconds between checks of the brokers while the writer finishes."""
_LOG_END = 1_000
"""Maximum number of characters of a broker's log in a result."""


class ClusterFaults:
    """Injects cluster faults, in the thread that started the brokers.

    The brokers are killed when this thread exits. `_kill` injects `ClusterFault.KILL`, and so on.
    """

    def __init__(self, cluster: SecuredCluster, plan: Plan, topic: str) -> None:
        self._cluster = cluster
        self._plan = plan
        self._topic = topic
        self._random = Random(f"{plan.seed}/nemesis")

    def run(self) -> None:
        """Inject the cluster faults of the plan in order."""
        for fault in self._plan.cluster_faults:
            self._sleep(0.0, 0.4)
            getattr(self, f"_{fault.name.lower()}")()

    def _sleep(self, least: float, most: float) -> None:
        time.sleep(self._random.uniform(least, most))

    def _none(self) -> None:
        time.sleep(0.8)

    def _node(self) -> int:
        return self._random.randrange(1, 4)

    def _kill(self) -> None:
        node = self._node()
        self._cluster.node(node).kill()
        self._sleep(0.0, 1.0)
        self._cluster.restart(node)

    def _kill_for_long(self) -> None:
        """Kill a broker, and restart it after its partitions have new leaders."""
        self._cluster.node(self._node()).kill()
        self._sleep(3.0, 4.0)

    def _pause(self) -> None:
        timeout = int(dict(self._plan.options)["request.timeout.ms"]) / 1000
        with self._paused():
            self._sleep(1.2 * timeout, 2.5 * timeout)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        node = self._cluster.node(self._node())
        node.pause()
        yield
        node.resume()

    def _stop(self, *nodes: int) -> None:
        for node in nodes or (self._node(),):
            self._cluster.node(node).stop()
            self._cluster.restart(node)

    def _roll(self) -> None:
        self._stop(1, 2, 3)

    def _move(self) -> None:
        admin = self._cluster.admin
        for _ in range(2):
            partition = self._random.randrange(self._plan.partitions)
            to = admin.leader(self._topic, partition) % 3 + 1
            admin.move_leader(self._topic, partition, to)

    def _delete(self) -> None:
        time.sleep(0.3)
        self._cluster.admin.delete_topics(self._topic)
        time.sleep(0.5)

    def _recreate(self) -> None:
        self._delete()
        create(self._cluster, self._plan, self._topic)
        time.sleep(0.5)

    def _few_replicas(self) -> None:
        """Stop one of three replicas while all three are required."""
        self.configure("min.insync.replicas", "3")
        with self._paused():
            self._sleep(2.0, 3.5)
        self.configure("min.insync.replicas", str(self._plan.min_isr))

    def _small_messages(self) -> None:
        """Lower the message size limit so that single records fit but batches do not."""
        size = self._plan.value_size + 150
        self.configure("max.message.bytes", str(self._random.choice((size, size * 3))))
        time.sleep(0.7)
        if self._random.random() < 0.5:
            self.configure("max.message.bytes", "1048588")

    def configure(self, name: str, value: str) -> None:
        """Change a config of the topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self._topic, incremental_configs=[entry])
        client = self._cluster.admin.client()
        client.incremental_alter_configs([resource])[resource].result(_WAIT_S)


def create(cluster: SecuredCluster, plan: Plan, topic: str) -> None:
    """Create the run's topic; retry while an old topic with this name is being deleted."""
    deadline = time.monotonic() + _WAIT_S
    configs = {"min.insync.replicas": str(plan.min_isr)}
    while True:
        try:
            cluster.admin.create_topic(topic, plan.partitions, 3, configs)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def producer_plans(arguments: argparse.Namespace) -> list[Plan]:
    """Return the plans that the command line selects."""
    seeds = [arguments.seed] if arguments.seed else PRODUCER.new_seeds(arguments.runs)
    plans = map(draw, seeds)
    return [replace(plan, secured=plan.secured or arguments.secured) for plan in plans]


class ProducerScenarios(Scenarios[Plan, SecuredCluster]):
    """Scenarios with producer sessions; if `verbose`, everything is logged to standard error."""

    ledger = PRODUCER
    shown = (
        "seed {seed:5} {seconds:5.1f} s {records:6} records {sessions:3} sessions "
        "({failed} failed) {scenario:30} {result}"
    )

    def __init__(self, folder: Path | None = None, *, verbose: bool = False) -> None:
        super().__init__(folder)
        self._debug = _CONTEXTS if verbose else ""
        if verbose:
            logging.basicConfig(format="%(created).3f %(message)s")
            logging.getLogger("spark_kafka_sink").setLevel(logging.DEBUG)

    def new_cluster(self, brokers: Brokers) -> SecuredCluster:  # noqa: ARG002
        """Return a new cluster, which is not started."""
        return SecuredCluster()

    def execute(self, cluster: SecuredCluster, result: Result[Plan], folder: Path) -> None:  # noqa: ARG002
        """Execute a plan in a new topic, and delete the topic."""
        plan = result.plan
        schedule = Schedule(seed=plan.seed, kinds=plan.faults, rate=plan.rate)
        topic = f"torture-{plan.seed}-{time.time_ns() // 1_000_000 % 1_000_000}"
        create(cluster, plan, topic)
        connection = cluster.client_options(secured=plan.secured)
        writer = Writer(plan, connection, topic, self._debug)
        for proxy in cluster.all_proxies:
            proxy.schedule = schedule
        try:
            _write_under_faults(cluster, result, writer, schedule)
        finally:
            for proxy in cluster.all_proxies:
                proxy.schedule = None
                proxy.close_connections()
            result.facts |= {"faults": dict(sorted(schedule.seen.items())), **_counts(writer)}
        cluster.heal()
        deleted = ClusterFault.DELETE in plan.cluster_faults
        log = None if deleted else _read_in_sync(cluster, topic)
        result.wrong += violations(plan, writer.done, log)
        with suppress(KafkaException):
            cluster.admin.delete_topics(topic)


def _counts(writer: Writer) -> dict[str, int]:
    reports = [session.report for session in writer.done]
    parts = [part for report in reports for part in report.partitions]
    return {
        "sessions": len(reports),
        "failed": sum(session.error is not None for session in writer.done),
        "records": sum(report.records for report in reports),
        "persisted": sum(report.persisted for report in reports),
        "possibly": sum(part.possibly_persisted for part in parts),
        "not": sum(part.not_persisted for part in parts),
        "retries": sum(report.retries for report in reports),
        "splits": sum(report.splits for report in reports),
    }


def _write_under_faults(
    cluster: SecuredCluster, result: Result[Plan], writer: Writer, schedule: Schedule
) -> None:
    over = Event()
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(writer.run, over.is_set)
        try:
            ClusterFaults(cluster, result.plan, writer.topic).run()
            cluster.heal()
            time.sleep(max(0.0, _MIN_S - (time.monotonic() - started)))
        finally:
            over.set()
            time.sleep(0.3)
            schedule.heal()
        try:
            await_writer(writing, cluster, result)
        except TimeoutError:
            result.wrong.append("the writer hangs")
            faulthandler.dump_traceback()
        finally:
            close_sessions()


def await_writer(writing: Future[None], cluster: SecuredCluster, result: Result[Plan]) -> None:
    """Wait for the last sessions. Brokers that exit in this time are reported and restarted.

    Raises:
        TimeoutError: the writer hangs.
    """
    deadline = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline:
        for node in cluster.nodes:
            if not node.running:
                end = node.log_end()[-_LOG_END:]
                result.wrong.append(f"broker {node.node_id} has exited unexpectedly: {end}")
                cluster.restart(node.node_id)
        with suppress(TimeoutError):
            return writing.result(_POLL_S)
    raise TimeoutError


def _read_in_sync(cluster: SecuredCluster, topic: str) -> list[ForeignRecord]:
    """Read the topic with an independent client after all replicas have caught up."""
    client = cluster.admin.client()

    def is_in_sync() -> bool:
        parts = client.list_topics(topic, timeout=10).topics[topic].partitions.values()
        return all(len(part.isrs) == 3 for part in parts)

    if not poll(is_in_sync, _IN_SYNC_S):
        raise TimeoutError(f"replicas of {topic} did not catch up")
    return by_confluent(cluster.bootstrap_servers, topic)
