"""The memory of a session's batches: what each of them charges to the buffer and to the quotas.

Slices of one chunk share a charge, which is freed with the last slice (design.md:
one-buffer-per-chunk). Small slices, and slices of a chunk that a stalled partition keeps alive, are
copied and charged alone.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from spark_kafka_sink.producer.buffer.batch import Charge

if TYPE_CHECKING:
    from spark_kafka_sink.config.enums import Codec
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.buffer.batch import EncodedSlice, ProducerBatch
    from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
    from spark_kafka_sink.producer.limits.buffer_quotas import BufferQuotas

_COPY_DIVISOR = 8
"""A slice smaller than 1/8 of its chunk is copied, so that it does not keep the whole chunk
alive."""


class BatchCharges:
    """Charges the batches of one session; callers must hold the session state's lock."""

    def __init__(self, pool: BufferPool, quotas: BufferQuotas) -> None:
        self._pool = pool
        self._quotas = quotas
        self._charged: set[ProducerBatch] = set()
        """All incomplete batches, in any state."""

    def add_open(self, batch: ProducerBatch) -> None:
        """Add a batch to which the writer appends."""
        self._charged.add(batch)

    def append(
        self, batch: ProducerBatch, encoded_slice: EncodedSlice, charge: Charge, now: float
    ) -> int:
        """Append a slice to an open batch; return the bytes that the caller must charge.

        The result is 0 if the batch holds `charge`, the charge for the whole chunk.
        """
        size = len(encoded_slice.data)
        is_small = size * _COPY_DIVISOR < charge.size
        batch.add(
            encoded_slice.data,
            encoded_slice.records,
            encoded_slice.max_timestamp,
            now,
            encoded_slice.row_numbers,
            is_small=is_small,
        )
        self._quotas.change(encoded_slice.topic_partition, size)
        if not is_small:
            charge.holders += 1
            batch.charges.append(charge)
            return 0
        if len(batch.charges) < len(batch.buffers):
            batch.charges.append(Charge(size))
        else:
            batch.charges[-1].size += size
        return size

    def add_closed(self, batch: ProducerBatch) -> None:
        """Charge a closed batch that the writer did not append."""
        self._charged.add(batch)
        self._charge(batch, batch.size)
        self._quotas.change(batch.topic_partition, batch.payload_size)

    def assign_partition(self, batch: ProducerBatch, topic_partition: TopicPartition) -> None:
        """Assign a partition to an unassigned batch, and count the batch towards its quotas."""
        batch.assign_partition(topic_partition)
        self._quotas.change(topic_partition, batch.payload_size)

    def set_payload(self, batch: ProducerBatch, payload: bytes, codec: Codec) -> None:
        """Replace the records of a batch by the compressed records."""
        self._pool.release(batch.charges)
        self._quotas.change(batch.topic_partition, len(payload) - batch.payload_size)
        batch.set_payload(payload, codec)
        self._charge(batch, len(payload))

    def release(self, batch: ProducerBatch) -> None:
        """Free the memory of a batch that is complete or was replaced."""
        self._pool.release(batch.charges)
        self._quotas.change(batch.topic_partition, -batch.payload_size)
        self._charged.discard(batch)

    def unpin(self, created_before: float) -> None:
        """Copy slices of mostly complete chunks that a stalled partition keeps in memory.

        Data that is not yet written to a socket stays in memory until it is written or the
        connection is closed.
        """
        live: Counter[int] = Counter()
        for batch in self._charged:
            for buffer, charge in zip(batch.buffers, batch.charges, strict=True):
                live[id(charge)] += memoryview(buffer).nbytes
        for batch in self._charged:
            if batch.created_at > created_before:
                continue
            for index, charge in enumerate(batch.charges):
                # A slice would keep the whole chunk in memory (design.md: one-buffer-per-chunk).
                if live[id(charge)] * _COPY_DIVISOR < charge.size * (_COPY_DIVISOR - 1):
                    self._copy_buffer(batch, index)

    def _copy_buffer(self, batch: ProducerBatch, index: int) -> None:
        data = bytes(batch.buffers[index])
        charge = batch.charges[index]
        batch.replace_buffer(index, data)
        batch.charges[index] = Charge(len(data))
        self._pool.charge(len(data))
        self._pool.release([charge])

    def _charge(self, batch: ProducerBatch, size: int) -> None:
        self._pool.charge(size)
        batch.charges.append(Charge(size))
