"""The buffer of one session, which the writer, codec and sender threads share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.assigned_topics import AssignedTopics
from spark_kafka_sink.producer.buffer.batch_queues import BatchQueues
from spark_kafka_sink.producer.buffer.buffer_pool import BufferPool
from spark_kafka_sink.producer.buffer.compressor import Compressor
from spark_kafka_sink.producer.buffer.session_state import SessionState
from spark_kafka_sink.producer.limits.buffer_quotas import BufferQuotas
from spark_kafka_sink.producer.limits.circuit_breakers import CircuitBreakers

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from spark_kafka_sink.config.throttling import ThrottlingConfig
    from spark_kafka_sink.producer.buffer.batch_listener import BatchListener
    from spark_kafka_sink.producer.producer_client import ProducerClient


class SessionBuffer:
    """The state, memory limits, batches and queues of a session.

    Args:
        client: the clock, the options of the buffer, and the thread that the writer wakes.
        throttling: the buffer's quotas, and the circuit breakers.
        listeners: follow the batches.
        executor: runs the compression; None for a dedicated thread.
    """

    def __init__(
        self,
        client: ProducerClient,
        throttling: ThrottlingConfig,
        listeners: BatchListener,
        executor: Executor | None,
    ) -> None:
        config, wakeup = client.config, client.network.wakeup
        self.state = SessionState(client.clock, wakeup, client.check_thread)
        self.pool = BufferPool(config, self.state, listeners)
        self.quotas = BufferQuotas.of_percent(
            throttling.buffer_share, config.buffer_memory, self.state.lock
        )
        self.queues = BatchQueues(self.state.lock)
        self.compressor = Compressor(config, client.clock, wakeup, executor)
        self.accumulator = Accumulator(
            config,
            state=self.state,
            pool=self.pool,
            quotas=self.quotas,
            queues=self.queues,
            compressor=self.compressor,
            listeners=listeners,
        )
        self.assigned_topics = AssignedTopics(
            self.state, self.accumulator, self.queues, self.quotas
        )
        self.breakers = CircuitBreakers(throttling)
