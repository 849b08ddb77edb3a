"""The log of a partition in the fake cluster; it validates sequence numbers as Kafka does."""

from dataclasses import dataclass, field

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.records.record_batch import BatchHeader, checksum
from spark_kafka_sink.kafka.records.record_decoder import Record, decode_batch

REMEMBERED = 5
SEQUENCES = 1 << 31


@dataclass
class ProducerState:
    """The state of a producer in one partition."""

    epoch: int
    next: int
    last: list[tuple[int, int, int]] = field(default_factory=list)
    """(base sequence, record count, base offset) of the last batches."""


@dataclass
class FakeLog:
    """One partition; `leader` is a node id.

    `since_2_5`: accept any first sequence of an unknown producer; older brokers accept only 0.
    """

    leader: int
    leader_epoch: int = 0
    max_batch: int = 1 << 30
    too_large: int = ErrorCode.message_too_large
    """The error code for larger batches."""
    since_2_5: bool = True
    granted_epochs_only: int = 0
    """The error code for epochs that InitProducerId has not returned; 0 to accept them."""
    batches: list[bytes] = field(default_factory=list)
    producers: dict[int, ProducerState] = field(default_factory=dict)
    end: int = 0

    def append(self, data: bytes) -> tuple[int, int]:
        """Validate and append a batch; return (error code, base offset)."""
        header = BatchHeader.parse(data)
        assert header.size == len(data), "one batch per partition"
        assert header.crc == checksum(data), "the checksum is right"
        if len(data) > self.max_batch:
            return self.too_large, -1
        if header.producer_id >= 0:
            producer = self.producers.get(header.producer_id)
            result = self._check(header, producer)
            if result is not None:
                return result
            if producer is None or producer.epoch != header.producer_epoch:
                producer = ProducerState(header.producer_epoch, 0)
                self.producers[header.producer_id] = producer
            producer.next = (header.base_sequence + header.record_count) % SEQUENCES
            producer.last.append((header.base_sequence, header.record_count, self.end))
            del producer.last[:-REMEMBERED]
        base = self.end
        self.end += header.record_count
        self.batches.append(data)
        return 0, base

    def _check(self, header: BatchHeader, producer: ProducerState | None) -> tuple[int, int] | None:
        if self.granted_epochs_only and header.producer_epoch > 0:
            return self.granted_epochs_only, -1
        if producer is None:
            return (
                None
                if self.since_2_5 or header.base_sequence == 0
                else (ErrorCode.unknown_producer_id, -1)
            )
        if header.producer_epoch < producer.epoch:
            return ErrorCode.invalid_producer_epoch, -1
        if header.producer_epoch > producer.epoch:
            return (
                None if header.base_sequence == 0 else (ErrorCode.out_of_order_sequence_number, -1)
            )
        for first, count, offset in producer.last:
            if (first, count) == (header.base_sequence, header.record_count):
                return 0, offset
        if header.base_sequence != producer.next:
            return ErrorCode.out_of_order_sequence_number, -1
        return None

    def records(self) -> list[Record]:
        """Return all records in log order."""
        return [record for data in self.batches for record in decode_batch(data)]

    def sequences(self) -> list[tuple[int, int, int]]:
        """Return epoch, first sequence and record count of each batch."""
        headers = map(BatchHeader.parse, self.batches)
        return [(h.producer_epoch, h.base_sequence, h.record_count) for h in headers]

    def values(self) -> list[bytes | None]:
        """Return all values in log order."""
        return [record.value for record in self.records()]
