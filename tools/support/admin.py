"""Manage the topics and leaders of a cluster with independent clients."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec, TopicMetadata

from tools.support.waiting import poll

_WAIT_S = 60
_QUIET = logging.getLogger("tools.support.librdkafka")
_QUIET.addHandler(logging.NullHandler())
_QUIET.propagate = False


@dataclass(frozen=True, slots=True)
class Admin:
    """Admin functions for the cluster at `bootstrap_servers`."""

    bootstrap_servers: str

    def client(self) -> AdminClient:
        """Return a new confluent-kafka admin client without logging.

        Do not let it be garbage-collected while its futures are in progress.
        """
        settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": self.bootstrap_servers,
            "reconnect.backoff.max.ms": 200,
        }
        return AdminClient(settings, logger=_QUIET)

    def broker_ids(self) -> set[int]:
        """Return the IDs of the brokers in the metadata, or an empty set after a timeout."""
        try:
            return set(self.client().list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
    ) -> str:
        """Create a topic, wait until all of its leaders serve it, and return its name."""
        self.create_topics(NewTopic(name, partitions, replication, config=dict(configs or {})))
        return name

    def create_topics(self, *topics: NewTopic) -> None:
        """Create topics, and wait until all of their leaders serve them.

        Metadata can contain a leader before it serves its partition. During this time, Java's
        producer can hang on the topic.
        """
        client = self.client()
        for created in client.create_topics(list(topics)).values():
            created.result(_WAIT_S)
        partitions = [
            TopicPartition(topic.topic, number)
            for topic in topics
            for number in range(topic.num_partitions)
        ]
        _await_served(client, partitions)

    def await_served(self, name: str) -> None:
        """Wait until all leaders of a topic serve it, for example after a broker restart."""
        client = self.client()
        partitions = client.list_topics(name, timeout=_WAIT_S).topics[name].partitions
        _await_served(client, [TopicPartition(name, number) for number in partitions])

    def delete_topics(self, *names: str) -> None:
        """Delete topics."""
        client = self.client()
        for deleted in client.delete_topics(list(names)).values():
            deleted.result(_WAIT_S)

    def leaders(self, topic: str) -> dict[int, int]:
        """Return the leader IDs by partition; -1 if a partition has no leader."""
        return {number: p.leader for number, p in self._topic(topic).partitions.items()}

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the ID of a partition's leader, or -1 if it has no leader."""
        return self.leaders(topic)[partition]

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make broker `to` the first replica of a partition, and elect it as the leader."""
        from kafka import KafkaAdminClient
        from kafka import TopicPartition as PurePartition

        current = self._topic(topic).partitions[partition].replicas
        replicas = [to, *(broker for broker in current if broker != to)]
        mover = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers.split(","))
        try:
            mover.alter_partition_reassignments({PurePartition(topic, partition): replicas})
        finally:
            mover.close()

        def is_elected() -> bool:
            if self.leader(topic, partition) == to:
                return True
            client, partitions = self.client(), [TopicPartition(topic, partition)]
            client.elect_leaders(ElectionType.PREFERRED, partitions).result(_WAIT_S)
            return False

        if not poll(is_elected, _WAIT_S, 0.1):
            raise TimeoutError(f"broker {to} did not become the leader of {topic}-{partition}")

    def _topic(self, topic: str) -> TopicMetadata:
        client = self.client()
        return client.list_topics(topic, timeout=_WAIT_S).topics[topic]


def _await_served(client: AdminClient, partitions: list[TopicPartition]) -> None:
    if not poll(lambda: _are_served(client, partitions), _WAIT_S):
        raise TimeoutError(f"not served: {partitions}")


def _are_served(client: AdminClient, partitions: list[TopicPartition]) -> bool:
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    futures = client.list_offsets(dict.fromkeys(partitions, latest))
    try:
        for answer in futures.values():
            answer.result(_WAIT_S)
    except KafkaException:
        return False
    return True
