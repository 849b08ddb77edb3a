"""Leader elections and partition reassignments (KIP-455), as in Kafka's controller.

During a reassignment, a partition has both the target replicas and the replicas to be removed. When
all added replicas are in sync, the replicas to be removed are dropped, and one of the remaining
replicas becomes the leader.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.requests.response_error import ResponseError
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import NO_LEADER, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.broker.cluster.nodes import NodeControl
    from spark_kafka_sink.broker.cluster.topics import Topics
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.broker.partition.topic import Topic
    from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory

_LOG = logging.getLogger(__name__)


class Elections:
    """Elects partition leaders, and moves partitions to other replicas.

    Every election increments the leader epoch.

    A new leader has only the records that it has replicated. As in Kafka, records that existed only
    on the former leader are lost. Such records were never acknowledged to a producer with acks=all.
    """

    def __init__(
        self, nodes: NodeControl, topics: Topics, purgatory: DelayedOperationPurgatory
    ) -> None:
        self._nodes = nodes
        self._topics = topics
        self._purgatory = purgatory
        self._reassigned: dict[TopicPartition, Partition] = {}
        self._untruncated: dict[TopicPartition, Partition] = {}
        """Partitions without a leader because their log could not be truncated."""

    def on_node_lost(self, node: int) -> None:
        """Remove a node from all in-sync replicas, and elect new leaders for its partitions."""
        for partition in self._topics.partitions():
            if node not in partition.replicas:
                continue
            if partition.leader == node:
                self._elect_next_leader(partition)
            if partition.in_sync != [node]:
                partition.in_sync = [other for other in partition.in_sync if other != node]
            self._purgatory.wake(partition.topic_partition)

    def on_node_started(self) -> None:
        """Elect leaders for all partitions without a leader."""
        for partition in self._topics.partitions():
            if partition.leader == NO_LEADER:
                self._elect_next_leader(partition)
                self._purgatory.wake(partition.topic_partition)

    def elect_preferred(self) -> None:
        """Elect the preferred leader (the first replica) of each partition if it is in sync."""
        for partition in self._topics.partitions():
            first = partition.replicas[0]
            if partition.leader != first and first in partition.in_sync:
                self._change_leader(partition, first)

    def elect(self, partition: Partition, *, unclean: bool) -> ErrorCode:
        """Run an election requested by ElectLeaders (KIP-460).

        The preferred leader is the first replica. An unclean election runs only if the partition
        has no leader. It can elect an active replica that is not in sync; records missing from
        this replica are lost.
        """
        first = partition.replicas[0]
        if partition.leader == first or (unclean and partition.leader != NO_LEADER):
            return ErrorCode.election_not_needed
        if not unclean:
            if first not in partition.in_sync or not self._nodes[first].is_active:
                return ErrorCode.preferred_leader_not_available
            self._change_leader(partition, first)
            return _led_by(partition, first)
        active = [node for node in partition.replicas if self._nodes[node].is_active]
        if not active:
            return ErrorCode.eligible_leaders_not_available
        node = next((node for node in active if node in partition.in_sync), active[0])
        partition.in_sync = [node]
        self._set_leader(partition, node)
        return _led_by(partition, node)

    def move(self, partition: Partition, node: int) -> None:
        """Make an active node the leader without losing records.

        A node that is not a replica replaces the leader as a replica.

        Raises:
            KafkaProdError: the node is not active.
        """
        if node not in self._nodes or not self._nodes[node].is_active:
            raise KafkaProdError(
                f"node {node} cannot lead {partition.topic}-{partition.index}",
                hint=f"Active nodes: {self._nodes.active()}.",
            )
        if node == partition.leader:
            return
        replaced = None
        if node not in partition.replicas:
            replaced = partition.leader if partition.leader >= 0 else partition.replicas[0]
            successor = {replaced: node}
            partition.replicas = [successor.get(old, old) for old in partition.replicas]
            partition.in_sync = [successor.get(old, old) for old in partition.in_sync]
        partition.replica_states.ends[node] = partition.log.end_offset
        if node not in partition.in_sync:
            partition.in_sync = [*partition.in_sync, node]
        self._change_leader(partition, node)
        topic = self._topics.named(partition.topic)
        if replaced is not None and topic is not None:
            partition.replica_states.forget(replaced)
            self._topics.store.save(topic)

    def reassigned(self) -> list[Partition]:
        """Return the partitions that are being reassigned."""
        return [self._reassigned[key] for key in sorted(self._reassigned)]

    def reassign(self, topic: Topic, partition: Partition, target: Sequence[int]) -> None:
        """Start to move a partition to the replicas in `target`, preferred leader first.

        Raises:
            ResponseError: `target` is empty, or contains duplicate or unknown nodes.
        """
        if problem := self._topics.problem_with_replicas(target):
            raise ResponseError(ErrorCode.invalid_replica_assignment, problem)
        original = [node for node in partition.replicas if node not in partition.adding]
        if len(partition.replicas) == 1:
            partition.replica_states.begin(partition.log.end_offset)
        partition.adding = [node for node in target if node not in original]
        partition.removing = [node for node in partition.replicas if node not in target]
        partition.replicas = [*target, *partition.removing]
        topic.is_replicated = topic.is_replicated or len(partition.replicas) > 1
        self._reassigned[partition.topic_partition] = partition
        self._topics.store.save(topic)

    def cancel_reassignment(self, topic: Topic, partition: Partition) -> None:
        """Cancel the reassignment of a partition.

        Raises:
            ResponseError: no reassignment is in progress, or no original replica is in sync.
        """
        if partition.topic_partition not in self._reassigned:
            raise ResponseError(ErrorCode.no_reassignment_in_progress, "")
        original = [node for node in partition.replicas if node not in partition.adding]
        if not set(original) & set(partition.in_sync):
            raise ResponseError(
                ErrorCode.invalid_replica_assignment, "None of the original replicas is in sync."
            )
        self._end_reassignment(topic, partition, original)

    def tick(self) -> None:
        """Retry failed truncations, and complete the reassignments whose replicas are in sync."""
        for key, partition in list(self._untruncated.items()):
            is_current = self._topics.partition(*key) is partition
            if not is_current or partition.leader != NO_LEADER or self._retry_truncation(partition):
                del self._untruncated[key]
        for partition in self.reassigned():
            topic = self._topics.named(partition.topic)
            if topic is None or topic.partition(partition.index) is not partition:
                del self._reassigned[partition.topic_partition]
                continue
            target = [node for node in partition.replicas if node not in partition.removing]
            in_sync = set(partition.in_sync)
            if set(partition.adding) <= in_sync and in_sync & set(target):
                self._end_reassignment(topic, partition, target)

    def _set_replicas(self, partition: Partition, replicas: list[int]) -> None:
        """Remove all replicas except `replicas`; elect a new leader if the leader is removed."""
        partition.replicas = list(replicas)
        partition.in_sync = [node for node in partition.in_sync if node in replicas]
        if partition.leader not in replicas:
            self._elect_next_leader(partition)
        self._purgatory.wake(partition.topic_partition)

    def _end_reassignment(self, topic: Topic, partition: Partition, replicas: list[int]) -> None:
        removed = [node for node in partition.replicas if node not in replicas]
        partition.adding = []
        partition.removing = []
        self._set_replicas(partition, replicas)
        for node in removed:
            partition.replica_states.forget(node)
        del self._reassigned[partition.topic_partition]
        self._topics.store.save(topic)

    def _retry_truncation(self, partition: Partition) -> bool:
        """Truncate a log to the end of its next leader, and elect that leader. Return success."""
        node = self._next_leader(partition)
        if node == NO_LEADER:
            return False
        try:
            partition.truncate(partition.replica_states.ends[node])
        except OSError:
            return False
        self._change_leader(partition, node)
        return True

    def _elect_next_leader(self, partition: Partition) -> None:
        self._change_leader(partition, self._next_leader(partition))

    def _next_leader(self, partition: Partition) -> int:
        """Return the first active in-sync replica, or `NO_LEADER`."""
        in_sync = (node for node in partition.replicas if node in partition.in_sync)
        return next((node for node in in_sync if self._nodes[node].is_active), NO_LEADER)

    def _change_leader(self, partition: Partition, node: int) -> None:
        old = partition.leader
        if node == old:
            return
        if old != NO_LEADER:
            partition.replica_states.ends[old] = partition.log.end_offset
        elif node != NO_LEADER and not partition.needs_truncation:
            partition.replica_states.ends[node] = partition.log.end_offset
        self._set_leader(partition, node)

    def _set_leader(self, partition: Partition, node: int) -> None:
        partition.leader = node
        partition.leader_epoch += 1
        if node != NO_LEADER:
            is_only = len(partition.replicas) == 1
            end = partition.log.end_offset if is_only else partition.replica_states.ends[node]
            if end < partition.log.end_offset or partition.needs_truncation:
                self._try_to_truncate(partition, end)
        if partition.leader != NO_LEADER:
            partition.begin_leader_epoch()
        self._purgatory.wake(partition.topic_partition)
        try:
            self._topics.store.save_leader_epoch(partition)
        except OSError as error:
            _LOG.warning("cannot store the leader epoch of %s: %s", partition.topic, error)

    def _try_to_truncate(self, partition: Partition, end: int) -> None:
        """Drop the records that the new leader lacks.

        If the storage fails, the partition has no leader until `tick` succeeds.
        """
        try:
            partition.truncate(end)
        except OSError as error:
            _LOG.warning(
                "%s-%d has no leader: its log cannot be truncated: %s",
                partition.topic,
                partition.index,
                error,
            )
            partition.leader = NO_LEADER
            self._untruncated[partition.topic_partition] = partition


def _led_by(partition: Partition, node: int) -> ErrorCode:
    return ErrorCode.none if partition.leader == node else ErrorCode.kafka_storage_error
