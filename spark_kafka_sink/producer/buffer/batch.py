"""A producer batch: records of one partition that are sent, retried and completed together.

`Compressor` compresses closed batches in a separate thread.

The writer thread fills a batch, the codec thread reads it, and the sender thread sends it. Until
the batch is drained, the accumulator's lock guards its fields; afterwards only the sender thread
uses them, except `charges`. After a batch is closed, `parts` is replaced but never modified, so the
codec thread can read it without the lock.

Source: ``ProducerBatch``.
"""

from __future__ import annotations

from collections import deque
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Thread, current_thread
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.kafka.records.compression import compress
from spark_kafka_sink.kafka.records.record_batch import (
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    next_sequence,
)
from spark_kafka_sink.producer.rows import UNKNOWN_ROW, RowNumbers
from spark_kafka_sink.report.metrics.producer_metrics import CloseReason

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.kafka.client.cluster_snapshot import TopicPartition


class EncodedSlice(NamedTuple):
    """Encoded records for one planned batch: `data` is a slice of the chunk's buffer.

    `opens`: the slice starts a new batch. Timestamps are in milliseconds. `rows`: the row numbers
    of the records, or None if unknown.
    """

    partition: TopicPartition
    data: bytes | memoryview
    records: int
    opens: bool
    base_timestamp: int
    max_timestamp: int
    rows: RowNumbers | None = None


class OpenBatch(NamedTuple):
    """The properties of an open batch, for the planner; `size` in bytes includes the header."""

    records: int
    size: int
    base_timestamp: int


@dataclass(slots=True)
class Charge:
    """A charge of `size` bytes to the buffer; freed when all `holders` have released it.

    Guarded by the session state's lock as soon as a batch holds the charge.
    """

    size: int
    holders: int = 1


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """A batch for one partition: its records, its memory accounting, and its delivery progress.

    Times are in seconds of the monotonic clock, timestamps in milliseconds, sizes in bytes.

    - `parts` are the buffers of the records section, compressed unless `codec` is NONE; `held` is
      their size. `raw_size` is the uncompressed size including the header.
    - `arrivals` are the times at which records were appended, each with the number of records;
      `rows` are the row numbers of the records.
    - `ready`: the batch may be sent.
    - `ambiguous`: the batch was sent but got no conclusive response, so the log may contain it.
    - `retried`: an attempt was rejected or its response was lost, so the batch is sent again.
      `refused` is the error code of the latest rejection, or 0.
    - `label` is the batch's number within the session, followed by a number for each split. `order`
      numbers the batches sent to the partition in the same way; it is empty before the first send.
    - `timed_from` is the time from which delivery.timeout.ms is measured for a sent batch; see
      `batch_completion`.
    - `topic_id` is the topic id with which the batch was last sent.
    - `completed`: the batch was acknowledged or has failed.
    - `restamped`: the batch contains dead letters with new timestamps, because the original
      timestamps were rejected.
    - `closed` and `reason`: when and why the batch was closed.
    - `compression` is the duration of the compression, None without compression.
    """

    partition: TopicPartition
    created: float
    base_timestamp: int
    max_timestamp: int
    arrivals: list[tuple[float, int]] = field(default_factory=list)
    rows: list[RowNumbers | None] = field(default_factory=list)
    parts: list[Buffer] = field(default_factory=list)
    charges: list[Charge] = field(default_factory=list)
    held: int = 0
    codec: Codec = Codec.NONE
    records: int = 0
    raw_size: int = HEADER_SIZE
    ready: bool = False
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE
    attempts: int = 0
    ambiguous: bool = False
    retried: bool = False
    refused: int = 0
    sent_at: float = 0.0
    timed_from: float = 0.0
    label: tuple[int, ...] = ()
    order: tuple[int, ...] = ()
    topic_id: uuid.UUID | None = None
    completed: bool = False
    restamped: bool = False
    closed: float = 0.0
    reason: CloseReason = CloseReason.FLUSH
    compression: float | None = None

    def add(
        self,
        part: Buffer,
        records: int,
        max_timestamp: int,
        now: float | None = None,
        rows: RowNumbers | None = None,
        *,
        is_small: bool = False,
    ) -> None:
        """Append encoded records; `now` is their arrival time (None: the batch's creation time).

        Copy a small part to the end of the previous small part. With many partitions, a batch
        consists of many small parts, and each would add to the cost of the checksum and request.
        """
        size = memoryview(part).nbytes
        last = self.parts[-1] if is_small and self.parts else None
        if isinstance(last, bytearray):
            last += part
        else:
            self.parts.append(bytearray(part) if is_small else part)
        self.held += size
        self.records += records
        self.arrivals.append((self.created if now is None else now, records))
        self.rows.append(rows)
        self.raw_size += size
        self.max_timestamp = max(self.max_timestamp, max_timestamp)

    def hold(self, parts: list[Buffer]) -> None:
        """Replace the records section, for example with the compressed records."""
        self.parts = parts
        self.held = sum(memoryview(part).nbytes for part in parts)

    def compressed(self, codec: Codec, level: int | None) -> bytes:
        """Return the compressed records section without changing the batch."""
        parts = self.parts  # another thread may complete the batch during the compression
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        # A codec allocates a buffer of the input's size. Copy the payload, which is several times
        # smaller, so that the whole buffer is not kept in memory while the batch waits.
        return bytes(memoryview(compress(codec, whole, level)))

    def row_numbers(self) -> RowNumbers | None:
        """Return the row numbers of all records, or None if all are unknown.

        A single unknown row number is `UNKNOWN_ROW`.
        """
        known = [each for each in self.rows if each is not None]
        if not known:
            return None
        numbers = [
            np.full(records, UNKNOWN_ROW) if each is None else np.asarray(each.numbers)
            for (_, records), each in zip(self.arrivals, self.rows, strict=True)
        ]
        return RowNumbers(np.concatenate(numbers), known[0].spark_partition)

    def number(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Assign the producer id, epoch and first sequence, which stay the same across retries."""
        self.producer_id, self.epoch, self.sequence = producer_id, epoch, sequence

    def unnumber(self) -> None:
        """Remove the sequence, so that the batch gets a new sequence."""
        self.number(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)

    @property
    def name(self) -> str:
        """The label as text; it is unique within the session."""
        return ".".join(map(str, self.label))

    @property
    def next_sequence(self) -> int:
        """The sequence of the record after this batch; wraps to 0 after 2^31 - 1."""
        return next_sequence(self.sequence, self.records)

    @property
    def size(self) -> int:
        """Size on the wire in bytes, including the header."""
        return HEADER_SIZE + self.held

    def encode(self, *, transactional: bool = False) -> Sequence[Buffer]:
        """Return the header and the records for a Produce request."""
        header = BatchHeader(
            attributes=self.codec | TRANSACTIONAL if transactional else int(self.codec),
            last_offset_delta=self.records - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            record_count=self.records,
        )
        return [header.pack(self.parts), *self.parts]


class CompressionResult(NamedTuple):
    """A batch's compressed records section and the compression time in seconds, or the error."""

    batch: ProducerBatch
    payload: bytes = b""
    seconds: float = 0.0
    error: BaseException | None = None


class Compressor:
    """Compresses the batches of one session; its thread starts with the first batch.

    It needs no lock, because each deque has one thread that appends and one thread that removes.

    Args:
        config: the codec and its level.
        clock: measures the compression time.
        on_result: called in the codec thread after each result.
        executor: runs the compression, one batch at a time; None for a dedicated thread.
    """

    def __init__(
        self,
        config: ProducerConfig,
        clock: Clock,
        on_result: Callable[[], None],
        executor: Executor | None = None,
    ) -> None:
        self.codec = config.compression_type
        self._level = config.compression_level
        self._clock = clock
        self._on_result = on_result
        self._executor = executor or ThreadPoolExecutor(
            1, thread_name_prefix="kafkaprod-codec", initializer=self._began
        )
        self._pending: deque[ProducerBatch] = deque()
        """Batches to compress. The writer and the sender append under the accumulator's lock. The
        codec thread removes batches; if it has died, the sender removes them. Each removed batch
        yields one result.
        """
        self._results: deque[CompressionResult] = deque()
        """Results that the codec thread appends and the sender removes."""
        self._thread: Thread | None = None
        """The codec thread; it sets this attribute when it starts."""

    def submit(self, batch: ProducerBatch) -> None:
        """Queue a batch for compression; the caller must hold the accumulator's lock."""
        self._pending.append(batch)
        self._executor.submit(self._compress, batch)

    def take_results(self) -> list[CompressionResult]:
        """Return the results since the last call; sender thread only.

        If the codec thread has died, return an error for each remaining batch.
        """
        results: list[CompressionResult] = []
        while self._results:
            results.append(self._results.popleft())
        if self._thread is not None and not self._thread.is_alive():
            error = RuntimeError("the codec thread has died")
            while self._pending:
                results.append(CompressionResult(self._pending.popleft(), error=error))
        return results

    def close(self) -> None:
        """Finish the batch that is being compressed and drop the others; writer thread only."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    # Only the codec thread calls the methods below.

    def _began(self) -> None:
        self._thread = current_thread()

    def _compress(self, batch: ProducerBatch) -> None:
        started = self._clock.monotonic()
        try:
            payload = batch.compressed(self.codec, self._level)
            result = CompressionResult(batch, payload, self._clock.monotonic() - started)
        except BaseException as error:  # noqa: BLE001 - passed on to the sender
            result = CompressionResult(batch, error=error)
        self._results.append(result)
        self._pending.popleft()
        self._on_result()
