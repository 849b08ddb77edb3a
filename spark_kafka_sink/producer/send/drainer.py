"""Select the batches of the next request to each broker, and assign the unassigned batches.

A batch of rows without a key gets its partition here, when it can be sent at once. Therefore, a
stalled partition or broker delays only batches that are already in flight to it. Other findings,
such as stale metadata or a required epoch bump, are returned to the sender, which handles them.
Sender thread only.

Source: ``RecordAccumulator.drain``; "Producer throughput improvement".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.buffer.partition_draw import available_partitions, draw_order
from spark_kafka_sink.producer.send.session_partitions import DrainedBatch

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.assigned_topics import AssignedTopics
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
    from spark_kafka_sink.producer.limits.circuit_breakers import CircuitBreakers
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.send.partition_state import PartitionState
    from spark_kafka_sink.producer.send.session_partitions import SessionPartitions
    from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager

_ONE_BATCH_ONLY = 1
"""Byte limit for a half-open broker; the first batch, which may have any size, uses it up."""

_SLOW = 0.1
"""If a broker does not respond for this fraction of request.timeout.ms, its requests are smaller.
"""


@dataclass(slots=True)
class DrainResult:
    """The next request to each broker, and other findings of the drainer."""

    room: dict[int, int]
    """Bytes that can be added to each broker's request; 0 if it cannot be sent now."""
    now: float
    unready: Collection[int] = ()
    """Brokers that batches wait for, but that are not connected."""
    requests: dict[int, list[DrainedBatch]] = field(default_factory=dict)
    has_more: bool = False
    """More batches may be sent in later requests."""
    needs_metadata: bool = False
    """A partition has no leader."""
    to_renumber: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    """Partitions that need new sequences before more batches are sent."""
    new_partitions: list[TopicPartition] = field(default_factory=list)
    """Partitions that must be added to the transaction first."""
    _taken: set[TopicPartition] = field(default_factory=set)

    def fits(self, topic_partition: TopicPartition, leader: int, size: int = 0) -> bool:
        """Return True if the batch fits into the request to `leader`.

        There is one batch per partition. The first batch of a request may have any size.
        """
        return topic_partition not in self._taken and self._has_room(leader, size)

    def is_full(self, leaders: Collection[int], size: int) -> bool:
        """Return True if `size` more bytes do not fit into any request to these brokers."""
        return not any(self._has_room(leader, size) for leader in leaders)

    def close(self, leader: int) -> None:
        """Close the request to a leader, because a batch did not fit; no more batches are added."""
        self.room[leader] = 0

    def partitions_of(self, topic: str) -> set[int]:
        """Return the partitions of a topic that already have a batch in a request."""
        return {partition for name, partition in self._taken if name == topic}

    def add(self, state: PartitionState, batch: ProducerBatch, leader: int) -> None:
        """Add a batch to the request to `leader`."""
        self.room[leader] -= batch.size
        self.requests.setdefault(leader, []).append(DrainedBatch(state, batch))
        self._taken.add(state.topic_partition)

    def _has_room(self, leader: int, size: int) -> bool:
        room = self.room.get(leader, 0)
        return room > 0 and (size <= room or leader not in self.requests)


@dataclass(kw_only=True, eq=False)
class Drainer:
    """Selects the batches for each Produce request in a session; sender thread only."""

    client: ProducerClient
    accumulator: Accumulator
    assigned_topics: AssignedTopics
    queues: BatchQueues
    breakers: CircuitBreakers
    partitions: SessionPartitions
    transaction_manager: TransactionManager | None

    def __post_init__(self) -> None:
        self._network = self.client.network
        self._metadata = self.client.metadata
        self._config = self.client.config
        self._slow_after = self._config.request_timeout_ms / 1000 * _SLOW
        self._snapshot: ClusterSnapshot | None = None
        self._leader_cache: dict[str, dict[int, int]] = {}
        """Leaders by topic and partition, from the metadata snapshot `_snapshot`."""

    def drain(self, now: float) -> DrainResult:
        """Return the batches of the next request to each broker that is ready for a request."""
        cluster = self._metadata.cluster
        self.breakers.set_unavailable(self._unavailable_brokers(now))
        queues = self.queues.waiting(self.partitions.with_retries())
        if not queues:
            return DrainResult({}, now)
        waiting = [(queue, self._leaders_of_topic(cluster, queue.topic)) for queue in queues]
        leaders = _all_leaders(waiting)
        ready = {leader for leader in leaders if self._network.is_ready(cluster.nodes[leader], now)}
        room = {
            leader: self._request_size_limit(leader, now) if leader in ready else 0
            for leader in leaders
        }
        result = DrainResult(room, now, leaders - ready)
        for queue, leaders_of_topic in waiting:
            leader = leaders_of_topic.get(queue.partition)
            if queue.partition == UNASSIGNED:  # design.md: unassigned-queue
                result.needs_metadata |= not leaders_of_topic and queue.topic in cluster.topics
                result.has_more |= self._drain_unassigned(queue, leaders_of_topic, result)
            elif leader is None:
                # Metadata of unknown topics is already being requested.
                result.needs_metadata |= queue.topic in cluster.topics
            elif room[leader] > 0:
                result.has_more |= self._drain_partition(queue, leader, result)
            else:
                result.has_more |= leader in result.requests
        return result

    def _leaders_of_topic(self, cluster: ClusterSnapshot, name: str) -> dict[int, int]:
        """Return the leaders of a topic's partitions, cached for each snapshot.

        Partitions without a leader are omitted.
        """
        if self._snapshot is not cluster:
            self._snapshot = cluster
            self._leader_cache.clear()
        leaders_of_topic = self._leader_cache.get(name)
        if leaders_of_topic is None:
            topic = cluster.topics.get(name)
            leaders = enumerate(topic.leaders if topic else ())
            leaders_of_topic = {
                number: leader for number, leader in leaders if leader in cluster.nodes
            }
            self._leader_cache[name] = leaders_of_topic
        return leaders_of_topic

    def _request_size_limit(self, node_id: int, now: float) -> int:
        """Return the current size limit for a request to this connected broker, in bytes.

        The limit is 0 if no request can be sent now.
        """
        in_flight = self._network.in_flight(node_id)
        if in_flight >= self._config.max_in_flight or self._network.broker(node_id).is_writing:
            return 0  # a queued request would use up request.timeout.ms
        if not self.breakers.may_send(node_id, in_flight > 0, now):
            return 0
        if self.breakers.is_probing(node_id, now):
            return _ONE_BATCH_ONLY
        if self._is_slow(node_id, now):
            return self._config.max_request_size
        return self.client.request_size_limit.at(now)

    def _is_slow(self, node_id: int, now: float) -> bool:
        """Return True if a broker responds so slowly that larger requests might time out."""
        since = self._network.oldest_request_sent_at(node_id)
        return since is not None and now - since > self._slow_after

    def _unavailable_brokers(self, now: float) -> frozenset[int]:
        """Return brokers that have not responded for partitioner.availability.timeout.ms.

        As in Java, this is part of adaptive partitioning.
        """
        timeout = self._config.partitioner_availability_timeout_ms / 1000
        if not timeout or not self._config.partitioner_adaptive_partitioning_enable:
            return frozenset()
        nodes = self._metadata.cluster.nodes
        since = {node_id: self._network.oldest_request_sent_at(node_id) for node_id in nodes}
        return frozenset(
            leader for leader, sent in since.items() if sent is not None and now - sent > timeout
        )

    def _drain_partition(
        self, topic_partition: TopicPartition, leader: int, result: DrainResult
    ) -> bool:
        """Drain the partition's next batch, if it may be sent and fits into the request.

        Return True if more may be sent in the next request.
        """
        if not result.fits(topic_partition, leader):
            return leader in result.requests
        state = self.partitions.of(topic_partition)
        if not self._may_send(state, result):
            return False
        batch = state.next_retry(leader, result.now)
        is_retry = batch is not None
        if batch is None and state.may_send_new(leader, result.now):
            batch = self.queues.head(topic_partition)
        if batch is None:
            return False
        if not result.fits(topic_partition, leader, batch.size):
            result.close(leader)
            return True
        self._add_to_request(state, batch, leader, result, is_retry=is_retry)
        return self.queues.head(topic_partition) is not None

    def _may_send(self, state: PartitionState, result: DrainResult) -> bool:
        """Return True if batches may be sent to the partition.

        If this depends on something that the sender must do first, add that to `result`.
        """
        if state.can_renumber:
            result.to_renumber[state.topic_partition] = state
            return False
        if self._must_add(state.topic_partition, result):
            return False
        return self.breakers.may_send(state.topic_partition, state.is_busy, result.now)

    def _must_add(self, topic_partition: TopicPartition, result: DrainResult) -> bool:
        """Return True if the partition must be added to the transaction first; request that."""
        transaction_manager = self.transaction_manager
        if transaction_manager is None or transaction_manager.may_send_to(topic_partition):
            return False
        result.new_partitions.append(topic_partition)
        return True

    def _add_to_request(
        self,
        state: PartitionState,
        batch: ProducerBatch,
        leader: int,
        result: DrainResult,
        *,
        is_retry: bool = False,
    ) -> None:
        """Add a batch to the request for the partition's leader."""
        if is_retry:
            self.queues.move_to_end(state.topic_partition)
        else:
            self.accumulator.drain(batch, state.topic_partition)
        state.mark_sent(batch, leader)
        result.add(state, batch, leader)

    # The methods below assign partitions to unassigned batches.

    def _drain_unassigned(
        self, unassigned: TopicPartition, leaders: dict[int, int], result: DrainResult
    ) -> bool:
        """Assign batches of a topic to partitions that are ready for a batch, at most one to each.

        Return True if more may be sent in the next request.
        """
        head = self.queues.head(unassigned)
        if head is None:
            return False
        brokers = set(leaders.values())
        if result.is_full(brokers, head.size):
            return not result.requests.keys().isdisjoint(brokers)
        partitions: Iterable[int] = self._partitions_in_draw_order(
            unassigned.topic, leaders, result
        )
        free = len(leaders)
        transaction_manager = self.transaction_manager
        if transaction_manager is not None and transaction_manager.version.needs_add_partitions:
            added = transaction_manager.partitions
            partitions = added.candidates(unassigned.topic, partitions)
            # At most one partition is added per batch, because few partitions save transaction
            # markers. A batch for which a partition is being added waits for that partition.
            free = self.queues.ready_count(unassigned) - added.pending(unassigned.topic)
        for partition in partitions:
            if free <= 0:
                break
            free -= self._assign_partition(head, partition, leaders[partition], result)
            head = self.queues.head(unassigned)
            if head is None:
                # Rows with a partition might be waiting for these batches to be drained.
                return unassigned.topic in self.assigned_topics
            if result.is_full(brokers, head.size):
                break
        return not result.requests.keys().isdisjoint(brokers)

    def _partitions_in_draw_order(
        self, topic: str, leaders: dict[int, int], result: DrainResult
    ) -> Iterator[int]:
        """Yield the partitions that might be ready for a batch, in random order."""
        room = result.room
        taken = result.partitions_of(topic)
        partitions = [
            partition
            for partition in available_partitions(leaders, self.breakers.unavailable)
            if room[leaders[partition]] > 0 and partition not in taken
        ]
        loads = None
        if self._config.partitioner_adaptive_partitioning_enable:
            counts = self.partitions.unacknowledged(topic)
            loads = [counts[partition] for partition in partitions]
        return draw_order(partitions, loads, self.client.random)

    def _assign_partition(
        self, batch: ProducerBatch, partition: int, leader: int, result: DrainResult
    ) -> bool:
        """Assign a batch to this partition and drain it, or request that the partition be added.

        Return False if the partition is not ready for the batch.
        """
        topic_partition = TopicPartition(batch.topic_partition.topic, partition)
        if self._must_add(topic_partition, result):
            return True
        if not result.fits(topic_partition, leader, batch.size):
            return False
        if not self.assigned_topics.may_assign(batch, topic_partition, self._metadata.cluster):
            return False
        state = self.partitions.of(topic_partition)
        if not self._may_send(state, result) or not state.may_send_new(leader, result.now):
            return False
        self._add_to_request(state, batch, leader, result)
        return True


def _all_leaders(waiting: Iterable[tuple[TopicPartition, dict[int, int]]]) -> set[int]:
    """Return the leaders of the partitions; for UNASSIGNED, all leaders of the topic."""
    leaders: set[int] = set()
    for (_, partition), leaders_of_topic in waiting:
        if partition == UNASSIGNED:
            leaders.update(leaders_of_topic.values())
        elif partition in leaders_of_topic:
            leaders.add(leaders_of_topic[partition])
    return leaders
