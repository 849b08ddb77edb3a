"""An accumulator that a test fills and empties."""

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.batch import Charge, EncodedSlice, ProducerBatch
from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
from spark_kafka_sink.producer.buffer.compressor import Compressor
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.limits.buffer_quotas import BufferQuotas
from spark_kafka_sink.producer.reporting.producer_events import ProducerEvents
from tests.support.clock import ManualClock
from tests.support.harness.offline import config
from tests.support.harness.world import ManualExecutor

PARTITIONS = [TopicPartition("t", number) for number in range(20)]


class AccumulatorHarness:
    """An accumulator with its clock, which is at `start` seconds, its memory and its wakeups."""

    def __init__(self, start: float = 1.0, **options: object) -> None:
        defaults = {"linger_ms": 100, "batch_size": 1_000, "buffer_memory": 10_000}
        settings = config(**{**defaults, **options})
        self.wakes = 0
        self.clock = clock = ManualClock(start)
        self.codec = ManualExecutor()
        self.state = SessionState(clock, self._wake, lambda _: None)
        events = ProducerEvents()
        self.memory = BufferPool(settings, self.state, events)
        self.queues = BatchQueues(self.state.lock)
        compressor = Compressor(settings, clock, self._wake, self.codec)
        self.accumulator = Accumulator(
            settings,
            state=self.state,
            pool=self.memory,
            quotas=BufferQuotas(None, self.state.lock),
            queues=self.queues,
            compressor=compressor,
            listeners=events,
        )

    def _wake(self) -> None:
        self.wakes += 1

    def put(self, sizes: dict[int, int], *, opens: bool = True) -> bytes:
        """Append a chunk with slices of these sizes, one per partition."""
        chunk = bytes(sum(sizes.values()))
        pieces, at = [], 0
        for partition, size in sizes.items():
            view = memoryview(chunk)[at : at + size]
            pieces.append(EncodedSlice(PARTITIONS[partition], view, 1, opens, 5, 5))
            at += size
        self.memory.reserve(len(chunk) + 50)
        self.accumulator.begin_layout()
        self.accumulator.append(pieces, Charge(len(chunk), holders=0), len(chunk) + 50)
        return chunk

    def queued(self) -> list[ProducerBatch]:
        return self.queues.batches()

    def complete_all(self) -> None:
        for batch in self.accumulator.take_all():
            self.accumulator.complete(batch)
