"""Select the batches of the next request to each broker, and assign partitions to unassigned ones.

A batch without a key gets its partition here, when it can be sent at once. So a stalled partition
or broker delays such batches only if they are already in flight to it. Other findings, such as
stale metadata or a due epoch bump, are returned to the sender, which acts on them. Sender thread
only.

Source: ``RecordAccumulator.drain``; "Producer throughput improvement".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.client.cluster import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.append.sticky_partitioner import (
    candidates,
    draw_order,
    queue_lengths,
)
from spark_kafka_sink.producer.producer_state import ProducerIdState
from spark_kafka_sink.producer.send.in_flight import DrainedBatch
from spark_kafka_sink.producer.transactions.partitions import UnassignedBatches

if TYPE_CHECKING:
    from collections import Counter, deque
    from collections.abc import Collection, Iterable, Iterator

    from spark_kafka_sink.client.cluster import Cluster
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.in_flight import InFlightBatches
    from spark_kafka_sink.producer.send.send_context import SendContext
    from spark_kafka_sink.producer.transactions.partitions import TransactionPartitions

_ONE_BATCH_ONLY = 1
"""Bytes of room for a half-open broker: the first batch may have any size and uses up the room."""

_SLOW = 0.1
"""Fraction of request.timeout.ms without a response after which requests become smaller."""


@dataclass(slots=True)
class Drained:
    """The next request of each broker, and other findings of the drainer.

    - `room`: bytes that each broker's request may still take; 0 if it cannot be sent now.
    - `unready`: brokers that batches wait for and that must be connected first.
    - `unavailable`: brokers that have not answered for so long that no unassigned batch goes there.
    - `more`: some batches may be sent in requests after these.
    - `stale`: a partition has no leader.
    - `epoch_bumps`: partitions that send nothing until they have new sequences.
    - `new_partitions`: partitions that must be added to the transaction first.
    """

    room: dict[int, int]
    now: float
    unready: Collection[int] = ()
    unavailable: frozenset[int] = frozenset()
    requests: dict[int, list[DrainedBatch]] = field(default_factory=dict)
    more: bool = False
    stale: bool = False
    epoch_bumps: dict[TopicPartition, InFlightBatches] = field(default_factory=dict)
    new_partitions: list[TopicPartition] = field(default_factory=list)
    _taken: set[TopicPartition] = field(default_factory=set)

    def fits(self, topic_partition: TopicPartition, leader: int, size: int = 0) -> bool:
        """Return True if a batch may join: one per partition, and the first may have any size."""
        return topic_partition not in self._taken and self._has_room(leader, size)

    def is_full(self, leaders: Collection[int], size: int) -> bool:
        """Return True if none of these brokers' requests has room for `size` bytes."""
        return not any(self._has_room(leader, size) for leader in leaders)

    def _has_room(self, leader: int, size: int) -> bool:
        room = self.room.get(leader, 0)
        return room > 0 and (size <= room or leader not in self.requests)

    def close(self, leader: int) -> None:
        """Close the request to a leader after a batch did not fit; no other batch may join it."""
        self.room[leader] = 0

    def taken(self, topic: str) -> set[int]:
        """Return the partitions of a topic that already have a batch in a request."""
        return {partition for name, partition in self._taken if name == topic}

    def add(self, batches: InFlightBatches, batch: ProducerBatch, leader: int) -> None:
        """Add a batch to the request to its leader."""
        self.room[leader] -= batch.size
        self.requests.setdefault(leader, []).append(DrainedBatch(batches, batch))
        self._taken.add(batches.partition)


class Drainer:
    """Selects the batches of each Produce request of one session; sender thread only."""

    def __init__(self, context: SendContext) -> None:
        session = context.session
        self._context = context
        self._client = session.client
        self._network = session.client.network
        self._metadata = session.client.metadata
        self._config = session.config
        self._accumulator = context.accumulator
        self._producer_state = session.producer_state
        self._breakers = session.breakers
        self._in_flight = context.in_flight
        self._transactions = session.transactions
        self._slow_after = session.config.request_timeout_ms / 1000 * _SLOW
        self._known: Cluster | None = None
        self._led_by: dict[str, dict[int, int]] = {}
        """Leaders by topic and partition, in the snapshot `_known`."""

    def drain(self, now: float) -> Drained:
        """Return the batches of the next request to each broker that can take one."""
        cluster = self._metadata.cluster
        unavailable = self._unavailable_brokers(now)
        queues = self._waiting()
        if not queues:
            return Drained({}, now, unavailable=unavailable)
        waiting = [(queue, self._led(cluster, queue.topic)) for queue in queues]
        leaders = _leaders(waiting)
        ready = {leader for leader in leaders if self._network.is_ready(cluster.nodes[leader], now)}
        room = {leader: self._room(leader, now) if leader in ready else 0 for leader in leaders}
        drained = Drained(room, now, leaders - ready, unavailable)
        with self._accumulator.lock:
            for queue, led in waiting:
                is_unassigned = queue.partition == UNASSIGNED
                has_leader = bool(led) if is_unassigned else queue.partition in led
                if not has_leader:
                    # Metadata of unknown topics is already being requested.
                    drained.stale |= queue.topic in cluster.topics
                if is_unassigned:
                    drained.more |= self._drain_unassigned(queue, led, drained)
                elif has_leader:
                    drained.more |= self._drain_partition(queue, led[queue.partition], drained)
        return drained

    def _waiting(self) -> list[TopicPartition]:
        """Return the queues with batches to send, the least recently served first.

        So no queue starves, and a batch that did not fit in a request is first in the next one.
        """
        with self._accumulator.lock:
            queues = self._accumulator.queues
            retried = {each for each, batches in self._in_flight.items() if batches.retry_queue}
            return [each for each, queue in queues.items() if queue or each in retried]

    def _led(self, cluster: Cluster, name: str) -> dict[int, int]:
        """Return the leader of each led partition of a topic, cached per snapshot."""
        if self._known is not cluster:
            self._known = cluster
            self._led_by.clear()
        led = self._led_by.get(name)
        if led is None:
            topic = cluster.topics.get(name)
            leaders = enumerate(topic.leaders if topic else ())
            led = {number: leader for number, leader in leaders if leader in cluster.nodes}
            self._led_by[name] = led
        return led

    def _room(self, node_id: int, now: float) -> int:
        """Return the bytes that a request to this ready broker may take now; 0 for none."""
        in_flight = self._network.in_flight(node_id)
        if in_flight >= self._config.max_in_flight or self._network.broker(node_id).is_writing:
            return 0  # request.timeout.ms begins at once, so no request may wait for the socket
        if not self._breakers.may_send(node_id, in_flight > 0, now):
            return 0
        if self._breakers.is_probing(node_id, now):
            return _ONE_BATCH_ONLY
        if self._is_slow(node_id, now):
            return self._config.max_request_size
        return self._client.request_size_limit.at(now)

    def _is_slow(self, node_id: int, now: float) -> bool:
        """Return True if a broker answers so slowly that larger requests would risk a timeout."""
        since = self._network.waits_since(node_id)
        return since is not None and now - since > self._slow_after

    def _unavailable_brokers(self, now: float) -> frozenset[int]:
        """Return brokers that have not answered for partitioner.availability.timeout.ms.

        As in Java this is part of adaptive partitioning.
        """
        timeout = self._config.partitioner_availability_timeout_ms / 1000
        if not timeout or not self._config.partitioner_adaptive_partitioning_enable:
            return frozenset()
        nodes = self._metadata.cluster.nodes
        since = {node_id: self._network.waits_since(node_id) for node_id in nodes}
        return frozenset(
            leader for leader, sent in since.items() if sent is not None and now - sent > timeout
        )

    def _drain_partition(
        self, topic_partition: TopicPartition, leader: int, drained: Drained
    ) -> bool:
        """Drain the partition's next batch, if it may be sent and fits into the request.

        Return True if more may be sent in the next request.
        """
        if not drained.fits(topic_partition, leader):
            return leader in drained.requests
        batches = self._context.batches_of(topic_partition)
        queue = self._accumulator.queues.get(topic_partition)
        if queue and self._accumulator.queues.get(
            TopicPartition(topic_partition.topic, UNASSIGNED)
        ):
            queue = None  # earlier rows without a partition may be assigned to it
        if not self._may_send(batches, drained):
            return False
        batch = batches.next(queue, leader, drained.now)
        if batch is None:
            return False
        if not drained.fits(topic_partition, leader, batch.size):
            drained.close(leader)
            return True
        if not batches.retry_queue:
            self._accumulator.drain(batch, topic_partition)
        self._take(batches, batch, leader, drained)
        return bool(queue)

    def _may_send(self, batches: InFlightBatches, drained: Drained) -> bool:
        """Return True if the session may send to the partition; else note why in `drained`."""
        if batches.must_bump_epoch:
            drained.epoch_bumps[batches.partition] = batches
            return False
        if (
            self._config.enable_idempotence
            and self._producer_state.state is not ProducerIdState.KNOWN
        ):
            return False
        if self._transactions is not None and not self._transactions.may_send_to(batches.partition):
            drained.new_partitions.append(batches.partition)
            return False
        return self._breakers.may_send(batches.partition, bool(batches.in_flight), drained.now)

    def _take(
        self, batches: InFlightBatches, batch: ProducerBatch, leader: int, drained: Drained
    ) -> None:
        batches.sent(batch, leader)
        self._accumulator.put_last(batch.partition)
        drained.add(batches, batch, leader)

    # Batches that have no partition yet.

    def _drain_unassigned(
        self, unassigned: TopicPartition, leaders: dict[int, int], drained: Drained
    ) -> bool:
        """Assign batches of a topic to partitions that can take them now, at most one to each.

        Return True if more may be sent in the next request.
        """
        queue = self._accumulator.queues[unassigned]
        if not queue[0].ready:
            return False
        brokers = set(leaders.values())
        if drained.is_full(brokers, queue[0].size):
            return not drained.requests.keys().isdisjoint(brokers)
        drawn = self._drawn(unassigned.topic, leaders, drained)
        if self._transactions is not None and (added := self._transactions.partitions) is not None:
            drawn = self._in_transaction(queue, drawn, added, drained)
        for partition in drawn:
            self._assign_partition(queue[0], partition, leaders[partition], drained)
            if not queue or not queue[0].ready:
                return not queue and self._has_followers(unassigned.topic)
            if drained.is_full(brokers, queue[0].size):
                break
        return not drained.requests.keys().isdisjoint(brokers)

    def _drawn(self, topic: str, leaders: dict[int, int], drained: Drained) -> Iterator[int]:
        """Yield the partitions that may be able to take a batch, in drawn order."""
        room, taken = drained.room, drained.taken(topic)
        partitions = [
            partition
            for partition in candidates(leaders, drained.unavailable)
            if room[leaders[partition]] > 0 and partition not in taken
        ]
        loads = None
        if self._config.partitioner_adaptive_partitioning_enable:
            lengths = self._queued(topic)
            loads = [lengths[partition] for partition in partitions]
        return draw_order(partitions, loads, self._client.random)

    @staticmethod
    def _in_transaction(
        queue: deque[ProducerBatch],
        drawn: Iterable[int],
        added: TransactionPartitions,
        drained: Drained,
    ) -> Iterator[int]:
        """Yield the drawn partitions that are in the transaction; request others as needed."""
        topic, ready = queue[0].partition.topic, sum(batch.ready for batch in queue)
        waiting = UnassignedBatches(added, topic, ready, drained.new_partitions)
        for partition in waiting.order(drawn):
            if waiting.done:
                return
            if waiting.may_take(partition):
                before = len(queue)
                yield partition
                waiting.taken(before - len(queue))

    def _queued(self, topic: str) -> Counter[int]:
        """Return the number of batches queued for or in flight to each partition of a topic."""
        lengths = queue_lengths(self._accumulator.queues, topic)
        for topic_partition, batches in self._in_flight.items():
            if topic_partition.topic == topic and (count := batches.count):
                lengths[topic_partition.partition] += count
        return lengths

    def _assign_partition(
        self, batch: ProducerBatch, partition: int, leader: int, drained: Drained
    ) -> None:
        """Drain a batch as one of this partition, if the partition can take it now."""
        topic_partition = TopicPartition(batch.partition.topic, partition)
        if not drained.fits(topic_partition, leader, batch.size):
            return
        if self._is_full(topic_partition, batch):
            return
        batches = self._context.batches_of(topic_partition)
        if self._may_send(batches, drained) and batches.takes_any(leader, drained.now):
            self._accumulator.put_last(batch.partition)
            self._accumulator.drain(batch, topic_partition)
            self._take(batches, batch, leader, drained)

    def _is_full(self, topic_partition: TopicPartition, batch: ProducerBatch) -> bool:
        """Return True if the partition or its broker has used up its share of the buffer.

        The share is ignored if rows with a partition wait for unassigned batches: those rows could
        be what uses it up.
        """
        if self._has_followers(topic_partition.topic):
            return False
        cluster = self._metadata.cluster
        full = self._accumulator.quotas.full(batch.held, cluster)
        return bool(full) and topic_partition.partition in full.of(
            cluster.topics[topic_partition.topic]
        )

    def _has_followers(self, topic: str) -> bool:
        """Return True if rows with a partition wait for the topic's unassigned batches."""
        return topic in self._accumulator.assigned_topics


def _leaders(waiting: Iterable[tuple[TopicPartition, dict[int, int]]]) -> set[int]:
    """Return the leaders of the queues' partitions; for unassigned queues, of the whole topic."""
    leaders: set[int] = set()
    for (_, partition), led in waiting:
        if partition == UNASSIGNED:
            leaders.update(led.values())
        elif partition in led:
            leaders.add(led[partition])
    return leaders
