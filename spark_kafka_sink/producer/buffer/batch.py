"""A producer batch: records of one partition that are sent, retried and completed together.

The writer thread fills a batch, the codec thread reads it, and the sender thread sends it. Until
the batch is drained, the accumulator's lock guards its fields; afterwards only the sender thread
uses them, except `charges`. After a batch is closed, `buffers` is replaced but never modified, so
the codec thread can read it without the lock.

Source: ``ProducerBatch``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_kafka_sink.common.close_reason import CloseReason
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
from spark_kafka_sink.producer.buffer.delivery_progress import DeliveryProgress
from spark_kafka_sink.producer.rows import UNKNOWN_ROW, RowNumbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition


class EncodedSlice(NamedTuple):
    """Encoded records for one batch of the layout. Timestamps are in milliseconds."""

    topic_partition: TopicPartition
    data: bytes | memoryview
    """A slice of the chunk's buffer."""
    records: int
    opens_batch: bool
    """True if the slice starts a new batch."""
    base_timestamp: int
    max_timestamp: int
    row_numbers: RowNumbers | None = None
    """Those of the records, or None if unknown."""


class OpenBatchFacts(NamedTuple):
    """The properties of an open batch, for `batch_layout`."""

    records: int
    size: int
    """In bytes, including the header."""
    base_timestamp: int


@dataclass(slots=True)
class Charge:
    """A charge to the buffer; freed when all holders have released it.

    Guarded by the session state's lock as soon as a batch holds the charge.
    """

    size: int
    """In bytes."""
    holders: int = 1
    """The number of batches that hold it."""


@dataclass(slots=True, eq=False)
class ProducerBatch:
    """A batch for one partition: its records, its memory accounting, and its delivery.

    Times are in seconds of the monotonic clock, timestamps in milliseconds, sizes in bytes.
    """

    topic_partition: TopicPartition
    created_at: float

    # The records.
    base_timestamp: int
    max_timestamp: int
    records: int = 0
    buffers: list[Buffer] = field(default_factory=list)
    """The records section, compressed unless `codec` is NONE."""
    payload_size: int = 0
    """Size of `buffers`."""
    codec: Codec = Codec.NONE
    raw_size: int = HEADER_SIZE
    """Uncompressed size, including the header."""
    arrivals: list[tuple[float, int, RowNumbers | None]] = field(default_factory=list)
    """For each appended slice, the time, the number of records and their row numbers, if known."""
    charges: list[Charge] = field(default_factory=list)
    """The memory that the batch keeps charged until it is complete."""

    # From open to complete.
    closed_at: float = 0.0
    """0 for a batch that the sender created."""
    close_reason: CloseReason = CloseReason.FLUSH
    compression_s: float | None = None
    """Duration of the compression; None without compression."""
    is_ready: bool = False
    """True if the batch may be sent."""
    is_completed: bool = False
    """True if the batch was acknowledged or has failed."""
    delivery: DeliveryProgress = field(default_factory=DeliveryProgress)

    # The identity of the batch: for the broker, in the session, and in its partition.
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH
    sequence: int = NO_SEQUENCE
    """Sequence of the first record."""
    label: tuple[int, ...] = ()
    """The batch's number within the session, followed by a number for each split."""
    order: tuple[int, ...] = ()
    """The batch's number among those sent to the partition, followed by a number for each split;
    empty before the first send.
    """

    def add(
        self,
        buffer: Buffer,
        records: int,
        max_timestamp: int,
        now: float | None = None,
        row_numbers: RowNumbers | None = None,
        *,
        is_small: bool = False,
    ) -> None:
        """Append encoded records; `now` is their arrival time (None: the batch's creation time).

        Copy a small buffer to the end of the previous small buffer. With many partitions, a batch
        consists of many small buffers, and each would add to the cost of the checksum and request.
        """
        size = memoryview(buffer).nbytes
        last = self.buffers[-1] if is_small and self.buffers else None
        if isinstance(last, bytearray):
            last += buffer
        else:
            self.buffers.append(bytearray(buffer) if is_small else buffer)
        self.payload_size += size
        self.records += records
        arrived_at = self.created_at if now is None else now
        self.arrivals.append((arrived_at, records, row_numbers))
        self.raw_size += size
        self.max_timestamp = max(self.max_timestamp, max_timestamp)

    def close(self, reason: CloseReason, now: float, *, is_ready: bool) -> None:
        """Take no further records; a batch that is not ready waits for its compression."""
        self.closed_at, self.close_reason, self.is_ready = now, reason, is_ready

    def record_compression(self, seconds: float) -> None:
        """Record the duration of the compression, after which the batch may be sent."""
        self.compression_s, self.is_ready = seconds, True

    def set_payload(self, payload: bytes, codec: Codec) -> None:
        """Replace the records with the compressed records."""
        self.buffers, self.payload_size, self.codec = [payload], len(payload), codec

    def assign_partition(self, topic_partition: TopicPartition) -> None:
        """Assign a partition to a batch of the unassigned queue."""
        self.topic_partition = topic_partition

    def replace_buffer(self, index: int, copy: bytes) -> None:
        """Replace a buffer with a copy, in a new list: the codec thread may read the old one."""
        self.buffers = [*self.buffers[:index], copy, *self.buffers[index + 1 :]]

    def complete(self) -> None:
        """Drop the records, which are acknowledged or have failed."""
        self.buffers, self.payload_size, self.is_completed = [], 0, True

    def compress_records(self, codec: Codec, level: int | None) -> bytes:
        """Return the compressed records section without changing the batch."""
        buffers = self.buffers  # another thread may complete the batch during the compression
        whole = buffers[0] if len(buffers) == 1 else b"".join(buffers)
        # A codec allocates a buffer of the input's size. Copy the payload, which is several times
        # smaller, so that the whole buffer is not kept in memory while the batch waits.
        return bytes(memoryview(compress(codec, whole, level)))

    def row_numbers(self) -> RowNumbers | None:
        """Return the row numbers of all records, or None if all are unknown.

        A single unknown row number is `UNKNOWN_ROW`.
        """
        first = next((known for *_, known in self.arrivals if known is not None), None)
        if first is None:
            return None
        numbers = [
            np.full(records, UNKNOWN_ROW) if known is None else np.asarray(known.numbers)
            for _, records, known in self.arrivals
        ]
        return RowNumbers(np.concatenate(numbers), first.spark_partition)

    def set_sequence(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Assign the producer id, epoch and first sequence, which stay the same across retries."""
        self.producer_id = producer_id
        self.epoch = epoch
        self.sequence = sequence

    def clear_sequence(self) -> None:
        """Remove the sequence, so that the batch gets a new sequence."""
        self.set_sequence(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)

    def assign_order(self, number: int) -> None:
        """Assign the batch's number among those sent to its partition; splits add to it."""
        self.order = (number,)

    def inherit_position(self, batch: ProducerBatch, *index: int) -> None:
        """Continue the label and order of `batch`, and its attempts unless `index` is given.

        `index` is the number of a piece, which is unsent.
        """
        self.label, self.order = (*batch.label, *index), (*batch.order, *index)
        if not index:
            self.delivery.attempts = batch.delivery.attempts

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
        return HEADER_SIZE + self.payload_size

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
        return [header.pack(self.buffers), *self.buffers]
