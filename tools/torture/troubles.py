"""Doing to a cluster what a plan says; everything is healed at the end."""

from __future__ import annotations

import time
from random import Random
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tools.torture import disk
from tools.torture.cluster import DISK_NODE
from tools.torture.plan import Plan, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.torture.cluster import TortureCluster

_WAIT_S = 20
_END = {True: "lived on", False: "died"}


class Nemesis:
    """Runs in the thread that started the brokers, which live no longer than it does."""

    def __init__(self, cluster: TortureCluster, plan: Plan, topic: str) -> None:
        self._cluster = cluster
        self._plan = plan
        self._topic = topic
        self._random = Random(f"{plan.seed}/nemesis")
        self.notes: list[str] = []
        """What is worth telling of how it went."""
        self._do: dict[Trouble, Callable[[], None]] = {
            Trouble.NONE: lambda: time.sleep(0.8),
            Trouble.KILL: self._kill,
            Trouble.KILL_FOR_LONG: self._kill_for_long,
            Trouble.PAUSE: self._pause,
            Trouble.STOP: self._stop,
            Trouble.ROLL: self._roll,
            Trouble.MOVE: self._move,
            Trouble.DELETE: self._delete,
            Trouble.RECREATE: self._recreate,
            Trouble.FEW_REPLICAS: self._few_replicas,
            Trouble.SMALL_MESSAGES: self._small_messages,
            Trouble.FULL_DISK: self._full_disk,
        }

    def run(self) -> None:
        """All troubles of the plan, one after the other."""
        for trouble in self._plan.troubles:
            time.sleep(self._random.uniform(0.0, 0.4))
            self._do[trouble]()

    def _node(self) -> int:
        return self._random.randrange(1, 4)

    def _kill(self) -> None:
        node = self._node()
        self._cluster.node(node).kill()
        time.sleep(self._random.uniform(0.0, 1.0))
        self._cluster.restart(node)

    def _kill_for_long(self) -> None:
        """Until others lead its partitions, and a little longer."""
        self._cluster.node(self._node()).kill()
        time.sleep(self._random.uniform(3.0, 4.0))

    def _pause(self) -> None:
        node = self._cluster.node(self._node())
        timeout = int(dict(self._plan.options)["request.timeout.ms"]) / 1000
        node.pause()
        time.sleep(timeout * self._random.uniform(1.2, 2.5))
        node.resume()

    def _stop(self) -> None:
        node = self._node()
        self._cluster.node(node).stop()
        self._cluster.restart(node)

    def _roll(self) -> None:
        for node in (1, 2, 3):
            self._cluster.node(node).stop()
            self._cluster.restart(node)

    def _move(self) -> None:
        admin = self._cluster.admin
        for _ in range(2):
            partition = self._random.randrange(self._plan.partitions)
            to = admin.leader(self._topic, partition) % 3 + 1
            admin.move_leader(self._topic, partition, to)

    def _delete(self) -> None:
        time.sleep(0.3)
        self._cluster.admin.delete_topic(self._topic)
        time.sleep(0.5)

    def _recreate(self) -> None:
        self._delete()
        create(self._cluster, self._plan, self._topic)
        time.sleep(0.5)

    def _few_replicas(self) -> None:
        """One replica of three stops answering while all three are wanted."""
        self.configure("min.insync.replicas", "3")
        node = self._cluster.node(self._node())
        node.pause()
        time.sleep(self._random.uniform(2.0, 3.5))
        node.resume()
        self.configure("min.insync.replicas", str(self._plan.min_isr))

    def _small_messages(self) -> None:
        """A record still fits, a batch does not."""
        size = self._plan.value_size + 150
        self.configure("max.message.bytes", str(self._random.choice((size, size * 3))))
        time.sleep(0.7)
        if self._random.random() < 0.5:
            self.configure("max.message.bytes", "1048588")

    def _full_disk(self) -> None:
        assert self._cluster.disk is not None
        disk.fill(self._cluster.disk)
        node, deadline = self._cluster.node(DISK_NODE), time.monotonic() + 3
        while node.running and time.monotonic() < deadline:
            time.sleep(0.1)
        self.notes.append(f"with a full disk broker {DISK_NODE} {_END[node.running]}")
        node.kill()
        disk.empty(self._cluster.disk)
        self._cluster.restart(DISK_NODE)

    def configure(self, name: str, value: str) -> None:
        """Change an option of the topic."""
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, self._topic, incremental_configs=[entry])
        client = self._cluster.admin.client()
        client.incremental_alter_configs([resource])[resource].result(_WAIT_S)


def create(cluster: TortureCluster, plan: Plan, topic: str) -> None:
    """The run's topic; again and again while the old one is still being deleted."""
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
