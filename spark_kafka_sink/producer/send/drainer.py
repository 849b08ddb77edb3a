"""Which batches go into the next request to each broker, and which partition the undesignated get.

A batch without a key gets its partition here, when it can be sent at once: nothing but what is
under way is ever stuck behind a partition or broker that stalls. Sender thread only.
Source: ``RecordAccumulator.drain``; "Producer throughput improvement".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.client.cluster import NO_LEADER
from spark_kafka_sink.client.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.append.partition_choice import able, drawn, queued
from spark_kafka_sink.producer.producer_state import ProducerIdState
from spark_kafka_sink.producer.send.in_flight import InFlightBatches
from spark_kafka_sink.producer.send.produce import Pick

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Iterator

    from spark_kafka_sink.client.cluster import Cluster, Node
    from spark_kafka_sink.producer.buffer.accumulator import Accumulator
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.context import SessionContext
    from spark_kafka_sink.producer.send.response_handler import ResponseHandler


@dataclass(slots=True)
class _Filling:
    """The next request of each broker while it is put together.

    `room` is the bytes that it may still have, 0 where none can be sent now.
    """

    room: dict[int, int]
    now: float
    picked: dict[int, list[Pick]] = field(default_factory=dict)
    _taken: set[TopicPartition] = field(default_factory=set)

    def fits(self, place: TopicPartition, leader: int, size: int = 0) -> bool:
        """Whether a batch may join: one per partition, and the first may have any size."""
        room = self.room.get(leader, 0)
        return room > 0 and place not in self._taken and (size <= room or leader not in self.picked)

    def is_full(self, leaders: Collection[int], size: int) -> bool:
        """Whether none of these brokers' requests has room for a batch of this size."""
        return not any(
            size <= (room := self.room[leader]) or (room > 0 and leader not in self.picked)
            for leader in leaders
        )

    def taken(self, topic: str) -> set[int]:
        """Partitions of a topic that a batch has joined for."""
        return {partition for name, partition in self._taken if name == topic}

    def add(self, lane: InFlightBatches, batch: ProducerBatch, leader: int) -> None:
        """A batch joins."""
        self.room[leader] -= batch.size
        self.picked.setdefault(leader, []).append(Pick(lane, batch))
        self._taken.add(lane.partition)


class Drainer:
    """One session's; `lanes` are shared with whoever takes the answers."""

    def __init__(
        self,
        context: SessionContext,
        accumulator: Accumulator,
        lanes: dict[TopicPartition, InFlightBatches],
        answers: ResponseHandler,
    ) -> None:
        self._client = client = context.client
        self._network = client.network
        self._metadata = client.metadata
        self._config = client.config
        self._accumulator = accumulator
        self._identity = context.producer_state
        self._breakers = context.breakers
        self._lanes = lanes
        self._answers = answers
        self._attempts: dict[int, int] = {}
        """Failed attempts to connect to each broker that the metadata was asked about since."""
        self._turn = 0
        self._known: Cluster | None = None
        self._led_by: dict[str, dict[int, int]] = {}
        """Leaders by topic and partition, as the snapshot `_known` has them."""

    def pick(self, now: float) -> tuple[dict[int, list[Pick]], bool]:
        """For each broker that can take a request, the batches of its next one.

        And whether there is more to pick, for a request after that.
        """
        waiting = {place: self._leaders(place) for place in self._waiting()}
        leaders = set[int]().union(*(each.values() for each in waiting.values()))
        # Outside the lock, which the writer wants too: connecting takes system calls.
        filling = _Filling({leader: self._room(leader, now) for leader in leaders}, now)
        more = False
        self._breakers.set_unavailable(self._silent(now))
        with self._accumulator.lock:
            for place, led in waiting.items():
                if place.partition == UNASSIGNED:
                    more |= self._pick_undesignated(place, led, filling)
                elif led:
                    more |= self._pick_from(place, led[place.partition], filling)
        return filling.picked, more

    def _waiting(self) -> list[TopicPartition]:
        """Queues with something to send; each is the first in its turn."""
        with self._accumulator.lock:
            queues = self._accumulator.queues
            waiting = [place for place, queue in queues.items() if queue]
            waiting += [p for p, lane in self._lanes.items() if lane.again and not queues.get(p)]
        self._turn += 1
        start = self._turn % len(waiting) if waiting else 0
        return waiting[start:] + waiting[:start]

    def _leaders(self, place: TopicPartition) -> dict[int, int]:
        """The leader of the partition, or of each partition of an undesignated queue's topic.

        Partitions without a leader are not among them; where there is no leader at all, the
        metadata is asked. It is being asked already about a topic that is not known.
        """
        cluster = self._metadata.cluster
        if place.partition == UNASSIGNED:
            led = self._led(cluster, place.topic)
        else:
            leader = cluster.leader(*place)
            led = {} if leader == NO_LEADER else {place.partition: leader}
        if not led and place.topic in cluster.topics:
            self._metadata.refresh()
        return led

    def _led(self, cluster: Cluster, name: str) -> dict[int, int]:
        """The leader of each partition of a topic that has one; found once per snapshot."""
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

    def _pick_from(self, place: TopicPartition, leader: int, filling: _Filling) -> bool:
        """Take the partition's next batch, if it may go and fits into the request.

        Returns whether something is left that may go with the next request.
        """
        if not filling.fits(place, leader):
            return leader in filling.picked
        lane = self._lane(place)
        queue = self._accumulator.queues.get(place)
        if queue and self._accumulator.queues.get(TopicPartition(place.topic, UNASSIGNED)):
            queue = None  # rows without a partition that came before these may go to it as well
        batch = lane.next(queue, leader, filling.now) if self._may_send(lane, filling) else None
        if batch is None:
            return False
        if not filling.fits(place, leader, batch.size):
            return True
        if not lane.again:
            self._accumulator.drain(batch, place)
        self._take(lane, batch, leader, filling)
        return bool(queue)

    def _pick_undesignated(
        self, place: TopicPartition, leaders: dict[int, int], filling: _Filling
    ) -> bool:
        """Give batches of a topic to partitions that can take them now, one to each at most.

        Returns whether something is left that may go with the next request.
        """
        queue = self._accumulator.queues[place]
        if not queue[0].ready:
            return False
        brokers = set(leaders.values())
        if filling.is_full(brokers, queue[0].size):
            return not filling.picked.keys().isdisjoint(brokers)
        for partition in self._drawn(place.topic, leaders, filling):
            self._designate(queue[0], partition, leaders[partition], filling)
            if not queue or not queue[0].ready:
                return not queue and self._has_followers(place.topic)
            if filling.is_full(brokers, queue[0].size):
                break
        return not filling.picked.keys().isdisjoint(brokers)

    def _drawn(self, topic: str, leaders: dict[int, int], filling: _Filling) -> Iterator[int]:
        """Partitions that are not seen to be unable, in the order in which they are drawn."""
        room, taken = filling.room, filling.taken(topic)
        partitions = [
            partition
            for partition in able(leaders, self._breakers.unavailable)
            if room[leaders[partition]] > 0 and partition not in taken
        ]
        loads = None
        if self._config.partitioner_adaptive_partitioning_enable:
            lengths = self._queued(topic)
            loads = [lengths[partition] for partition in partitions]
        return drawn(partitions, loads, self._client.random)

    def _has_followers(self, topic: str) -> bool:
        """Rows with a partition wait until the topic's undesignated ones have gone."""
        return topic in self._accumulator.assigned_topics

    def _silent(self, now: float) -> frozenset[int]:
        """Brokers that have owed an answer for partitioner.availability.timeout.ms.

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

    def _queued(self, topic: str) -> Counter[int]:
        """Batches that wait for each partition of a topic or are under way to it, if any are."""
        lengths = queued(self._accumulator.queues, topic)
        for place, lane in self._lanes.items():
            if (lane.in_flight or lane.again) and place.topic == topic:
                lengths[place.partition] += len(lane.in_flight) + len(lane.again)
        return lengths

    def _designate(
        self, batch: ProducerBatch, partition: int, leader: int, filling: _Filling
    ) -> None:
        """Send a batch to this partition, if that can take it now; else it stays where it is."""
        place = TopicPartition(batch.partition.topic, partition)
        if not filling.fits(place, leader, batch.size) or self._is_full(place, batch):
            return
        lane = self._lane(place)
        if self._may_send(lane, filling) and lane.takes_any(leader, filling.now):
            self._accumulator.drain(batch, place)
            self._take(lane, batch, leader, filling)

    def _is_full(self, place: TopicPartition, batch: ProducerBatch) -> bool:
        """The partition, or its broker, has used up its share of the buffer.

        No share holds up what others wait behind: it could be used up by them.
        """
        if self._has_followers(place.topic):
            return False
        cluster = self._metadata.cluster
        full = self._accumulator.quotas.full(batch.held, cluster)
        return bool(full) and place.partition in full.of(cluster.topics[place.topic])

    def _take(
        self, lane: InFlightBatches, batch: ProducerBatch, leader: int, filling: _Filling
    ) -> None:
        lane.sent(batch, leader)
        filling.add(lane, batch, leader)

    def _may_send(self, lane: InFlightBatches, filling: _Filling) -> bool:
        """Whether anything stands in the way but what the lane itself knows."""
        if lane.outdated:
            self._metadata.refresh()
            return False
        self._answers.renumber(lane)
        if self._config.enable_idempotence and self._identity.state is not ProducerIdState.KNOWN:
            return False
        return self._breakers.may_send(lane.partition, bool(lane.in_flight), filling.now)

    def _lane(self, place: TopicPartition) -> InFlightBatches:
        """The partition's lane, told which topic of its name the metadata has."""
        topic_id = self._metadata.cluster.topics[place.topic].topic_id
        lane = self._lanes.get(place)
        if lane is None:
            known = self._identity.sequences.get(place)
            lane = self._lanes[place] = InFlightBatches(place)
            if known is not None:
                lane.topic_id, lane.proven = known.topic_id, known.topic_id == topic_id
        lane.outdated = lane.topic_id is not topic_id and not lane.belongs_to(topic_id)
        return lane

    def _room(self, node_id: int, now: float) -> int:
        """Bytes that a request to this broker may have now; 0 while it can't take one."""
        node = self._metadata.cluster.nodes[node_id]
        in_flight = self._network.in_flight(node_id)
        self._network.connect(node, now)
        can_take = self._network.is_ready(node, now) and in_flight < self._config.max_in_flight
        self._doubt(node)
        if not can_take or not self._breakers.may_send(node_id, in_flight > 0, now):
            return 0
        # Half-open: the first batch has any size, and leaves no room for another.
        return 1 if self._breakers.is_probing(node_id, now) else self._config.max_request_size

    def _doubt(self, node: Node) -> None:
        """A leader that can't be connected to may be none any more: ask after each attempt."""
        attempts = self._network.attempts(node)
        if attempts > self._attempts.get(node.node_id, 0):
            self._metadata.refresh()
        self._attempts[node.node_id] = attempts
