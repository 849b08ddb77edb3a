"""Partitions on their way to other nodes (KIP-455).

As in Kafka's controller: the replicas that come are added first, behind those that stay; once all
of them are in sync the others go, and one of the rest leads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.cluster.new_topic import TopicError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.cluster.elections import Elections
    from spark_kafka_sink.broker.cluster.topics import Topics
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic


class Reassignments:
    """Those that are going on, by topic and index."""

    __slots__ = ("_elections", "_ongoing", "_topics")

    def __init__(self, topics: Topics, elections: Elections) -> None:
        self._topics = topics
        self._elections = elections
        self._ongoing: dict[tuple[str, int], Partition] = {}

    def ongoing(self) -> list[Partition]:
        """Every partition that is reassigned now."""
        return [self._ongoing[key] for key in sorted(self._ongoing)]

    def begin(self, topic: Topic, partition: Partition, target: Sequence[int]) -> None:
        """Let a partition have other replicas, in the order of `target`.

        Raises:
            TopicError: there are no such nodes.
        """
        if problem := self._topics.problem_with_replicas(target):
            raise TopicError(ErrorCode.invalid_replica_assignment, problem)
        original = [node for node in partition.replicas if node not in partition.adding]
        if len(partition.replicas) == 1:
            partition.replica_states.begin(partition.log.end_offset)
        partition.adding = [node for node in target if node not in original]
        partition.removing = [node for node in partition.replicas if node not in target]
        partition.replicas = [*target, *partition.removing]
        topic.is_replicated = topic.is_replicated or len(partition.replicas) > 1
        self._ongoing[partition.topic, partition.index] = partition
        self._topics.store.save(topic)

    def cancel(self, topic: Topic, partition: Partition) -> None:
        """Take back what has not ended.

        Raises:
            TopicError: nothing is going on, or nobody could lead.
        """
        if (partition.topic, partition.index) not in self._ongoing:
            raise TopicError(ErrorCode.no_reassignment_in_progress, "")
        original = [node for node in partition.replicas if node not in partition.adding]
        if not set(original) & set(partition.in_sync):
            raise TopicError(
                ErrorCode.invalid_replica_assignment, "None of the former replicas is in sync."
            )
        self._end(topic, partition, original)

    def tick(self) -> None:
        """End those whose new replicas have everything."""
        for partition in self.ongoing():
            topic = self._topics.named(partition.topic)
            if topic is None or topic.partition(partition.index) is not partition:
                del self._ongoing[partition.topic, partition.index]
                continue
            target = [node for node in partition.replicas if node not in partition.removing]
            in_sync = set(partition.in_sync)
            if set(partition.adding) <= in_sync and in_sync & set(target):
                self._end(topic, partition, target)

    def _end(self, topic: Topic, partition: Partition, replicas: list[int]) -> None:
        gone = [node for node in partition.replicas if node not in replicas]
        partition.adding, partition.removing = [], []
        self._elections.keep(partition, replicas)
        for node in gone:
            partition.replica_states.forget(node)
        del self._ongoing[partition.topic, partition.index]
        self._topics.store.save(topic)
