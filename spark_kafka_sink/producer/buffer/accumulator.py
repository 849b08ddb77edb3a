"""The one object that the writer thread and the sender thread share, under one lock.

The writer reserves memory, plans, and appends encoded records to open batches, which close when
they are full, have lingered, on flush, or when memory runs short. Closed ones wait in order, per
partition or per topic without a key, for the sender. Source: ``RecordAccumulator``.
"""

from __future__ import annotations

from collections import deque
from threading import Condition, RLock
from typing import TYPE_CHECKING

from spark_kafka_sink.client.client import LOOK_EVERY
from spark_kafka_sink.client.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.metrics.recorder import CloseReason
from spark_kafka_sink.producer.buffer.batch import OpenBatch, ProducerBatch
from spark_kafka_sink.producer.buffer.buffer_pool import (
    COPY_BELOW,
    PINNED_FOR,
    SHORT_AFTER,
    BufferPool,
    Charge,
    unpin,
)
from spark_kafka_sink.producer.buffer.quotas import BufferQuotas
from spark_kafka_sink.producer.events import ProducerEvents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.metrics.recorder import MetricsRecorder
    from spark_kafka_sink.producer.buffer.batch import EncodedSlice


class Accumulator:
    """Open and closed batches, and the memory they take.

    `lock` guards every attribute. `changed` is notified when memory is freed, when a batch is
    settled, when an error ends the session, and when metadata arrives.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        on_closed: Callable[[ProducerBatch], None],
        wake_sender: Callable[[], None],
        trace: ProducerEvents | None = None,
    ) -> None:
        self.lock = RLock()
        self.changed = Condition(self.lock)
        self.memory = BufferPool(config.buffer_memory)
        self.shares = BufferQuotas()
        # Called while the writer waits: it ends the session if the other threads are gone.
        self.look_after: Callable[[], None] = lambda: None
        self.queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self.partitioned: set[str] = set()
        """Topics with rows that know their partition: what is unassigned of them goes first."""
        self.error: BaseException | None = None
        self.unsettled = 0
        """Batches that are neither acknowledged nor failed."""
        self.doomed = False
        """A batch has failed, and `error` will say so once all others are settled."""
        self._live: set[ProducerBatch] = set()
        self._unpin_at = 0.0
        self.waited = 0.0
        """Seconds that the writer has waited for memory."""
        self.waits = 0
        self._open: dict[TopicPartition, ProducerBatch] = {}
        self._config = config
        self._clock = clock
        self._on_closed = on_closed
        self._wake_sender = wake_sender
        self._trace = trace or ProducerEvents()
        self._news = False
        """A batch has closed, or is the first that lingers: the sender should know."""
        self._appending = False
        self._starving_since: float | None = None
        self._created = 0
        self._wanted: set[str] = set()

    # The writer's side.

    def wait_for(self, done: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until `done`, called under the lock, is true; raises the session's error."""
        deadline = None if seconds is None else self._clock.monotonic() + seconds
        with self.lock:
            while True:
                if self.error is not None:
                    raise self.error
                if done():
                    return True
                left = None if deadline is None else deadline - self._clock.monotonic()
                if left is not None and left <= 0:
                    return False
                if not self.changed.wait(LOOK_EVERY if left is None else min(left, LOOK_EVERY)):
                    self.look_after()

    def reserve(self, size: int) -> None:
        """Charge `size` bytes; waits while the buffer is full, at most max.block.ms.

        Raises:
            BufferTimeoutError: the buffer stayed full.
        """
        with self.lock:
            self._check()
            if self.memory.fits(size):
                self.memory.take(size)
                return
        if not self.wait_for_room(lambda: self.memory.fits(size), size):
            raise self.memory.stayed_full(size, self._config.max_block_ms)
        with self.lock:
            self.memory.take(size)

    def wait_for_room(self, done: Callable[[], bool], size: int) -> bool:
        """Wait for room for `size` bytes, until `done`, at most max.block.ms; batches close."""
        started = self._starving_since = self._clock.monotonic()
        self._wake_sender()
        try:
            return self.wait_for(done, self._config.max_block_ms / 1000)
        finally:
            self._starving_since = None
            took = self._clock.monotonic() - started
            self.waited, self.waits = self.waited + took, self.waits + 1
            self._trace.waited(size, took, self.memory.used)

    def open_batch(self, partition: TopicPartition) -> OpenBatch | None:
        """What a plan must know of a partition's open batch; call between begin and append."""
        batch = self._open.get(partition)
        if batch is None:
            return None
        return OpenBatch(batch.records, batch.raw_size, batch.base_timestamp)

    def has_partitioned(self, topics: Iterable[str]) -> None:
        """Rows of these topics come that know their partition; what is undesignated closes."""
        with self.lock:
            self.partitioned.update(topics)
            for place in [place for place in self._open if place.partition == UNASSIGNED]:
                if place.topic in self.partitioned:
                    self._close(place, CloseReason.FLUSH)
        self._wake_sender()

    def begin(self) -> None:
        """From here until `append`, open batches stay as they are: a plan is built on them."""
        with self.lock:
            self._check()
            self._appending = True

    def append(self, pieces: Sequence[EncodedSlice], chunk: Charge, reserved: int) -> None:
        """Put a chunk's encoded slices into their batches, as planned.

        Args:
            pieces: the slices, in the order of the plan.
            chunk: the charge for the chunk's buffer, with no holders yet.
            reserved: bytes that `reserve` charged for it.

        Raises:
            BaseException: the session's error; nothing was taken over then.
        """
        now = self._clock.monotonic()
        with self.lock:
            self._check()
            self._appending = False
            self._news = not self._open
            for piece in pieces:
                self._append(piece, chunk, now)
            # Not before: the plan may come back to a batch in a later piece.
            for partition in {piece.partition for piece in pieces}:
                self._close_full(partition)
            if chunk.holders:
                self.memory.take(chunk.size)
            self.memory.give_back(reserved)
            news = self._news
        if news:
            self._wake_sender()

    def give_up(self, reserved: int) -> None:
        """A chunk failed between `reserve` and `append`: free its bytes, let batches close."""
        with self.lock:
            self._appending = False
            self.memory.give_back(reserved)

    def flush(self) -> None:
        """Close all batches and wait until each is settled; raises the session's error."""
        with self.lock:
            for partition in list(self._open):
                self._close(partition, CloseReason.FLUSH)
        self._wake_sender()
        self.wait_for(lambda: self.unsettled == 0 and not self.doomed, None)

    def want_topics(self, topics: tuple[str, ...]) -> None:
        """Ask the sender to learn about these topics."""
        with self.lock:
            self._wanted.update(topics)
        self._wake_sender()

    # The sender's side.

    def wanted_topics(self) -> set[str]:
        """Every topic that the writer has asked for."""
        with self.lock:
            return set(self._wanted)

    def close_due(self, now: float) -> None:
        """Close the batches that have lingered, or all while they keep the writer waiting."""
        linger = self._config.linger_ms / 1000
        with self.lock:
            if self._appending:
                return
            short = self._is_short(now)
            if self.waiting_for_memory and now >= self._unpin_at:
                self._unpin_at = now + PINNED_FOR / 4
                old = [batch for batch in self._live if now - batch.created >= PINNED_FOR]
                unpin(self.memory, self._live, old)
                self.changed.notify_all()
            for partition, batch in list(self._open.items()):
                lingered = now >= batch.created + linger
                if not short and not lingered:
                    break
                self._close(partition, CloseReason.LINGER if lingered else CloseReason.MEMORY)

    def next_linger(self, now: float) -> float:
        """Seconds until `close_due` may have something to do."""
        with self.lock:
            oldest = next(iter(self._open.values()), None)
            if oldest is None:
                return 1.0
            lingers = max(0.0, oldest.created + self._config.linger_ms / 1000 - now)
            return min(lingers, SHORT_AFTER) if self.waiting_for_memory else lingers

    def settle(self, batch: ProducerBatch) -> None:
        """A batch is acknowledged or has failed: free its memory."""
        with self.lock:
            self._forget(batch)
            batch.hold([])
            batch.settled = True
            self.unsettled -= 1
            self.changed.notify_all()

    def replace(self, batch: ProducerBatch, pieces: Sequence[ProducerBatch]) -> None:
        """A batch was split: its pieces take over its charges."""
        with self.lock:
            self.unsettled += len(pieces) - 1
            self._forget(batch)
            for piece in pieces:
                self._live.add(piece)
                self._charge(piece, piece.size)
                self.shares.change(piece.partition, piece.held)
            self.changed.notify_all()

    def add_closed(self, batch: ProducerBatch) -> None:
        """A batch of the sender's own making, such as dead letters: it waits for no memory."""
        with self.lock:
            self._created += 1
            batch.label = (self._created,)
            self._live.add(batch)
            self.unsettled += 1
            self._charge(batch, batch.size)
            self.shares.change(batch.partition, batch.held)
            self.queues.setdefault(batch.partition, deque()).append(batch)

    def drain(self, batch: ProducerBatch, partition: TopicPartition) -> None:
        """The first batch of a queue leaves it, as one of `partition`; call under the lock."""
        self.queues[batch.partition].popleft()
        if batch.partition != partition:
            batch.partition = partition
            self.shares.change(partition, batch.held)
            self._trace.designated(batch)

    def compressed(self, batch: ProducerBatch, payload: bytes, codec: Codec) -> None:
        """The codec thread is done with a batch: it may be sent."""
        with self.lock:
            if batch.settled:
                return  # it expired meanwhile
            self.memory.let_go(batch.charges)
            self.shares.change(batch.partition, len(payload) - batch.held)
            batch.hold([payload])
            batch.codec = codec
            self._charge(batch, len(payload))
            batch.ready = True
            self._trace.compressed(batch)
            self.changed.notify_all()
        self._wake_sender()

    def mark_failed(self) -> None:
        """A failure for good: from now on `flush` waits for the error that ends the session."""
        with self.lock:
            self.doomed = True

    def fail(self, error: BaseException) -> None:
        """End the session: every wait of the writer raises `error`."""
        with self.lock:
            self.error = self.error or error
            self.changed.notify_all()

    @property
    def waiting_for_memory(self) -> bool:
        """The writer waits for room."""
        return self._starving_since is not None

    def open_batches(self) -> list[tuple[TopicPartition, ProducerBatch]]:
        """The batches that still take records, oldest first."""
        with self.lock:
            return list(self._open.items())

    def measure(self, meters: MetricsRecorder) -> None:
        """Note the state of the buffer."""
        meters.buffer_waits, meters.buffer_wait = self.waits, self.waited
        meters.buffer_peak = self.memory.peak

    def notify(self) -> None:
        """Something else that the writer may wait for has changed."""
        with self.lock:
            self.changed.notify_all()

    def take_while(self, unwanted: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """Batches never drained, from the head of each queue as long as they are unwanted."""
        taken: list[ProducerBatch] = []
        with self.lock:
            for queue in self.queues.values():
                while queue and unwanted(queue[0]):
                    taken.append(queue.popleft())
        return taken

    def take_all(self) -> list[ProducerBatch]:
        """Every batch that was never drained, open ones included: the session has failed."""
        with self.lock:
            rest = [batch for queue in self.queues.values() for batch in queue]
            rest += self._open.values()
            self.queues.clear()
            self._open.clear()
            return rest

    # Under the lock.

    def _is_short(self, now: float) -> bool:
        """The writer waits for room, and open batches are what it waits for."""
        since = self._starving_since
        return since is not None and (
            self.unsettled == len(self._open) or now >= since + SHORT_AFTER
        )

    def _append(self, piece: EncodedSlice, chunk: Charge, now: float) -> None:
        batch = self._open.get(piece.partition)
        if piece.opens and batch is not None:
            self._close(piece.partition, CloseReason.FULL)
            batch = None
        if batch is None:
            batch = ProducerBatch(piece.partition, now, piece.base_timestamp, piece.base_timestamp)
            self._created += 1
            batch.label = (self._created,)
            self._open[piece.partition] = batch
            self._live.add(batch)
            self.unsettled += 1
        data = piece.data
        size = memoryview(data).nbytes
        self.shares.change(piece.partition, size)
        if size * COPY_BELOW < chunk.size:
            data = bytes(data)
            self._charge(batch, size)
        else:
            chunk.holders += 1
            batch.charges.append(chunk)
        batch.add(data, piece.records, piece.max_timestamp, now)
        self._trace.appended(batch, piece.records)

    def _close_full(self, partition: TopicPartition) -> None:
        batch = self._open[partition]
        size, records = self._config.batch_size, self._config.batch_num_messages
        if batch.raw_size >= size - size // 64 or batch.records >= records:
            self._close(partition, CloseReason.FULL)

    def _forget(self, batch: ProducerBatch) -> None:
        self.memory.let_go(batch.charges)
        self.shares.change(batch.partition, -batch.held)
        self._live.discard(batch)

    def _charge(self, batch: ProducerBatch, size: int) -> None:
        self.memory.take(size)
        batch.charges.append(Charge(size))

    def _close(self, partition: TopicPartition, reason: CloseReason) -> None:
        batch = self._open.pop(partition)
        self._news = True
        batch.closed, batch.reason = self._clock.monotonic(), reason
        self._trace.closed(batch)
        self.queues.setdefault(partition, deque()).append(batch)
        batch.ready = self._config.compression_type is Codec.NONE
        if not batch.ready:
            self._on_closed(batch)

    def _check(self) -> None:
        if self.error is not None:
            raise self.error
