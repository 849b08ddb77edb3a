"""The accumulator: the open batches, which accept records, and the states of all batches.

The writer appends encoded records to open batches. A batch closes when it is full, when linger.ms
has passed, or when memory is short (`close_rules`), and on flush. Closed batches wait for the
sender in a queue for each partition (`BatchQueues`). `BatchCharges` accounts for the memory of all
batches.

Source: ``RecordAccumulator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.close_reason import CloseReason
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.protocol.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.producer.buffer.batch import OpenBatchFacts, ProducerBatch
from spark_kafka_sink.producer.buffer.batch_charges import BatchCharges
from spark_kafka_sink.producer.buffer.close_rules import (
    CloseRules,
    is_writer_starved,
    surplus_bytes,
)
from spark_kafka_sink.producer.buffer.session_state import flush_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.producer.buffer.batch import Charge, EncodedSlice
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
    from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
    from spark_kafka_sink.producer.buffer.compressor import Compressor
    from spark_kafka_sink.producer.buffer.session_state import SessionState
    from spark_kafka_sink.producer.limits.buffer_quotas import BufferQuotas

_PIN_TIMEOUT_S = 1.0
"""Age in seconds above which slices of mostly complete chunks are copied if the buffer is full.

A working broker completes a chunk much earlier.
"""


class BatchTotals(NamedTuple):
    """Records and uncompressed bytes in a partition's open batch and in its closed batches."""

    open_records: int = 0
    open_bytes: int = 0
    queued_records: int = 0
    queued_bytes: int = 0


class BufferContents(NamedTuple):
    """The contents of the buffer: the batches of each partition, and the memory in bytes."""

    totals: dict[TopicPartition, BatchTotals]
    incomplete_batches: int
    """The number of batches that are neither acknowledged nor failed."""
    used: int
    limit: int
    is_full: bool
    """True if the writer waits for buffer space."""


class Accumulator:
    """Open and closed batches of one session, shared by its writer and its sender.

    Until a batch is drained, the lock guards its `buffers`, `charges`, `payload_size`, `is_ready`,
    `closed_at` and `close_reason`. The writer fills and closes the batch; the sender closes it,
    copies its buffers and stores the compressed records. Afterwards, only the sender uses the
    batch. `charges` and the charges themselves are guarded by the lock until the batch is complete,
    because batches share chunks.
    """

    def __init__(
        self,
        config: ProducerConfig,
        *,
        state: SessionState,
        pool: BufferPool,
        quotas: BufferQuotas,
        queues: BatchQueues,
        compressor: Compressor,
        listeners: BatchListener,
    ) -> None:
        self._state = state
        self._pool = pool
        self._queues = queues
        self._charges = BatchCharges(pool, quotas)
        self._lock = state.lock
        self._compressor = compressor
        self._listeners = listeners
        self._close_rules = CloseRules.from_config(config)
        self._flush_timeout = flush_timeout(config.delivery_timeout_ms)
        self._compresses = config.compression_type is not Codec.NONE

        # Guarded by the session state's lock.
        self._open: dict[TopicPartition, ProducerBatch] = {}
        self._layout_started_at: float | None = None
        """Start time of the current layout, or None. Open batches do not change during a layout."""
        self._is_close_missed = False
        """True if a batch became due during the current layout."""
        self._open_bytes = 0
        """Sum of `payload_size` of the open batches."""
        self._created = 0

        # Sender thread only.
        self._unpin_at = 0.0

    # Only the writer thread calls the methods below.

    def open_batch(self, topic_partition: TopicPartition) -> OpenBatchFacts | None:
        """Return the properties of a partition's open batch, which the sender may close any time.

        During a layout, use the lookup that `begin_layout` returns.
        """
        with self._lock:
            batch = self._open.get(topic_partition)
            if batch is None:
                return None
            return OpenBatchFacts(batch.records, batch.raw_size, batch.base_timestamp)

    def close_unassigned(self, topics: Collection[str]) -> None:
        """Close the open batches without a partition of these topics."""
        with self._lock:
            for topic_partition in list(self._open):
                topic, partition = topic_partition
                if partition == UNASSIGNED and topic in topics:
                    self._close(topic_partition, CloseReason.FLUSH)
        self._state.wake_sender()

    def begin_layout(self) -> Callable[[TopicPartition], ProducerBatch | None]:
        """Start a layout; return the lookup of open batches, which do not change until `append`.

        The lookup needs no lock, because `close_due` closes no batch during a layout.
        """
        with self._lock:  # No batch closes from here to `append` (design.md: layout-before-encode).
            self._state.raise_error()
            self._layout_started_at = self._state.clock.monotonic()
            return self._open.get

    def append(self, slices: Sequence[EncodedSlice], charge: Charge, reserved: int) -> None:
        """Append a chunk's encoded slices to their batches, as laid out.

        Args:
            slices: in the order of the layout.
            charge: the charge for the chunk's buffer, which has no holders yet.
            reserved: bytes that were reserved in the pool for the chunk.

        Raises:
            BaseException: the session's error; in that case nothing was appended.
        """
        with self._lock:
            self._state.raise_error()
            now = (
                self._state.clock.monotonic()
                if self._layout_started_at is None
                else self._layout_started_at
            )
            self._layout_started_at = None
            wakes_sender = self._is_close_missed or (
                self._close_rules.is_linger_short and not self._open
            )
            self._is_close_missed = False
            copied = 0
            for encoded_slice in slices:
                if encoded_slice.opens_batch and encoded_slice.topic_partition in self._open:
                    self._close(encoded_slice.topic_partition, CloseReason.FULL)
                    wakes_sender = True
                copied += self._append(encoded_slice, charge, now)
            # Close full batches last: a later slice may belong to the same batch as an earlier one.
            full = {
                encoded_slice.topic_partition
                for encoded_slice in slices
                if self._is_full(encoded_slice.topic_partition)
            }
            for topic_partition in full:
                self._close(topic_partition, CloseReason.FULL)
            self._pool.charge(copied + (charge.size if charge.holders else 0))
            self._pool.free(reserved)
            wakes_sender |= bool(full)
            wakes_sender |= self._surplus() > 0
        if wakes_sender:
            self._state.wake_sender()

    def cancel_layout(self, reserved: int) -> None:
        """Free the reservation for rows that will not be appended.

        After this, `close_due` can close open batches again.
        """
        with self._lock:
            self._layout_started_at = None
            self._pool.free(reserved)

    def flush(self) -> None:
        """Close all batches and wait until each is complete; raise the session's error."""
        self.close_open()
        self._state.wake_sender()
        self._state.wait_until_complete(self._flush_timeout)

    def close_open(self) -> None:
        """Close all open batches."""
        with self._lock:
            for topic_partition in list(self._open):
                self._close(topic_partition, CloseReason.FLUSH)

    # Only the sender thread calls the methods below, and `Sender.handle_crash` after its death.

    def close_due(self, now: float) -> None:
        """Close batches whose linger.ms has passed, and batches whose memory the writer needs.

        The rules are in `close_rules`.
        """
        with self._lock:
            if self._layout_started_at is not None:
                self._is_close_missed = self.seconds_until_due(now) <= 0
                return
            surplus = self._surplus()
            waiting_since = self._pool.writer_waiting_since
            is_starved = is_writer_starved(
                waiting_since, now, is_all_open=self._state.incomplete_batches == len(self._open)
            )
            if waiting_since is not None and now >= self._unpin_at:
                self._unpin_at = now + _PIN_TIMEOUT_S / 4
                self._charges.unpin(now - _PIN_TIMEOUT_S)
                self._state.wake_writer()
            while self._open:
                topic_partition, batch = next(iter(self._open.items()))
                reason = self._close_rules.reason_to_close(
                    batch.created_at, now, is_memory_short=is_starved or surplus > 0
                )
                if reason is None:
                    break
                surplus -= batch.payload_size
                self._close(topic_partition, reason)

    def seconds_until_due(self, now: float) -> float:
        """Return the seconds until `close_due` must be called again."""
        with self._lock:
            oldest = next(iter(self._open.values()), None)
            return self._close_rules.seconds_until_due(
                None if oldest is None else oldest.created_at,
                now,
                is_writer_waiting=self._pool.writer_waiting_since is not None,
            )

    def store_compressed(self) -> BaseException | None:
        """Store the compressor's results in their batches; return the first error, if any."""
        failure: BaseException | None = None
        for batch, payload, seconds, error in self._compressor.take_results():
            if error is not None:
                failure = failure or error
                continue
            with self._lock:
                if not batch.is_completed:  # otherwise, the batch has expired
                    self._store_payload(batch, payload, seconds)
        return failure

    def drain(self, batch: ProducerBatch, topic_partition: TopicPartition) -> None:
        """Remove the first batch of its queue, and assign it `topic_partition`."""
        with self._lock:
            self._queues.pop(batch.topic_partition)
            if batch.topic_partition != topic_partition:
                self._queues.move_to_end(batch.topic_partition)
                self._charges.assign_partition(batch, topic_partition)
                self._listeners.on_partition_assigned(batch)
            self._queues.move_to_end(topic_partition)

    def complete(self, batch: ProducerBatch) -> None:
        """Free the memory of an acknowledged or failed batch."""
        with self._lock:
            self._charges.release(batch)
            batch.complete()
            self._state.complete()

    def replace(self, batch: ProducerBatch, pieces: Sequence[ProducerBatch]) -> None:
        """Replace a batch with `pieces`, each with its own charge."""
        with self._lock:
            self._charges.release(batch)
            for piece in pieces:
                self._charges.add_closed(piece)
            self._state.add_incomplete(len(pieces))
            self._state.complete()

    def add_closed(self, batch: ProducerBatch) -> None:
        """Queue a batch created by the sender (such as dead letters) without waiting for space."""
        with self._lock:
            self._label(batch)
            self._charges.add_closed(batch)
            self._state.add_incomplete(1)
            self._queues.append(batch)

    def end_session(
        self, error: BaseException, fail_undrained: Callable[[list[ProducerBatch]], None]
    ) -> None:
        """End the session: pass all undrained batches to `fail_undrained`, then set `error`.

        The writer cannot append rows between these steps.
        """
        with self._lock:
            fail_undrained(self.take_all())
            self._state.end(error)

    def take_all(self) -> list[ProducerBatch]:
        """Remove and return all batches that were never drained, including open batches."""
        with self._lock:
            undrained = [*self._queues.take_all(), *self._open.values()]
            self._open.clear()
            self._open_bytes = 0
            return undrained

    # Any thread may call the methods below.

    def open_batches(self) -> list[tuple[TopicPartition, ProducerBatch]]:
        """Return the batches that still accept records, oldest first."""
        with self._lock:
            return list(self._open.items())

    def contents(self) -> BufferContents:
        """Return the batches and the memory that are in use."""
        totals: dict[TopicPartition, BatchTotals] = {}
        with self._lock:
            for topic_partition, batch in self._open.items():
                totals[topic_partition] = BatchTotals(batch.records, batch.raw_size)
            for batch in self._queues.batches():
                earlier = totals.get(batch.topic_partition, BatchTotals())
                totals[batch.topic_partition] = earlier._replace(
                    queued_records=earlier.queued_records + batch.records,
                    queued_bytes=earlier.queued_bytes + batch.raw_size,
                )
            is_full = self._pool.writer_waiting_since is not None
            return BufferContents(
                totals, self._state.incomplete_batches, self._pool.used, self._pool.limit, is_full
            )

    # Callers of the methods below must hold the lock.

    def _append(self, encoded_slice: EncodedSlice, charge: Charge, now: float) -> int:
        """Append a slice to its open batch, or to a new batch; return the bytes to charge."""
        batch = self._open.get(encoded_slice.topic_partition) or self._open_new(encoded_slice, now)
        copied = self._charges.append(batch, encoded_slice, charge, now)
        self._open_bytes += len(encoded_slice.data)
        self._listeners.on_appended(batch, encoded_slice.records)
        return copied

    def _open_new(self, encoded_slice: EncodedSlice, now: float) -> ProducerBatch:
        base = encoded_slice.base_timestamp
        batch = self._open[encoded_slice.topic_partition] = ProducerBatch(
            encoded_slice.topic_partition, now, base, base
        )
        self._label(batch)
        self._charges.add_open(batch)
        self._state.add_incomplete(1)
        return batch

    def _is_full(self, topic_partition: TopicPartition) -> bool:
        batch = self._open[topic_partition]
        return self._close_rules.is_full(batch.raw_size, batch.records)

    def _close(self, topic_partition: TopicPartition, reason: CloseReason) -> None:
        batch = self._open.pop(topic_partition)
        self._open_bytes -= batch.payload_size
        batch.close(reason, self._state.clock.monotonic(), is_ready=not self._compresses)
        self._listeners.on_closed(batch)
        self._queues.append(batch)
        if self._compresses:
            self._compressor.submit(batch)

    def _store_payload(self, batch: ProducerBatch, payload: bytes, seconds: float) -> None:
        """Store the compressed records, unless they are larger than the uncompressed records."""
        batch.record_compression(seconds)
        if len(payload) < batch.payload_size:
            self._charges.set_payload(batch, payload, self._compressor.codec)
        self._listeners.on_compressed(batch)
        self._state.wake_writer()

    def _label(self, batch: ProducerBatch) -> None:
        self._created += 1
        batch.label = (self._created,)

    def _surplus(self) -> int:
        return surplus_bytes(self._pool.used, self._pool.limit, self._open_bytes)
