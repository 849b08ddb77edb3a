"""Everything a cluster knows; touched by the event loop's thread alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from zlib import crc32

from spark_kafka_sink.broker.delayed import DelayedAnswers
from spark_kafka_sink.broker.groups import Groups
from spark_kafka_sink.broker.topics import NewTopic, Topics

if TYPE_CHECKING:
    from spark_kafka_sink.base.clock import Clock
    from spark_kafka_sink.broker.config import BrokerConfig

FIRST_PRODUCER_ID = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A broker of the cluster as clients see it."""

    id: int
    host: str
    port: int


class Cluster:
    """Nodes, topics, consumer groups, producer ids, and answers that wait."""

    def __init__(self, config: BrokerConfig, nodes: list[Node], clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.nodes = {node.id: node for node in nodes}
        self.topics = Topics(config, sorted(self.nodes))
        self.delayed = DelayedAnswers()
        self.groups = Groups()
        self._next_producer_id = FIRST_PRODUCER_ID
        for name, partitions in config.topics.items():
            configs = config.topic_configs.get(name, {})
            self.topics.create(NewTopic(name=name, partitions=partitions, configs=dict(configs)))

    @property
    def controller_id(self) -> int:
        """The node that clients send administrative requests to."""
        return min(self.nodes)

    def new_producer_id(self) -> int:
        """Give out a producer id that nobody has had."""
        self._next_producer_id += 1
        return self._next_producer_id - 1

    def coordinator(self, key: str) -> Node:
        """Find the node that looks after a group."""
        ids = sorted(self.nodes)
        return self.nodes[ids[crc32(key.encode()) % len(ids)]]

    def tick(self) -> None:
        """Do what is due: late members leave, waiting requests are answered."""
        now = self.clock.monotonic()
        self.groups.tick(now)
        self.delayed.poll(now)
