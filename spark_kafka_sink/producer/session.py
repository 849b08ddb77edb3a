"""One task's producer session, and its progress.

The writer thread calls `ProducerSession`. Each chunk of rows passes through the stages of `append`
once: validate, admit, route, lay out, encode, append.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.kafka.client.client import THREAD_CHECK_S
from spark_kafka_sink.producer.append.chunk import RoutedChunk
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from spark_kafka_sink.producer.session_assembly import SessionAssembly
from spark_kafka_sink.report.metrics.metrics_recorder import TopicCounts

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from spark_kafka_sink.common.recreated_topics import WrittenTopic
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
    from spark_kafka_sink.producer.append.chunk import AdmittedChunk
    from spark_kafka_sink.producer.producer_client import ProducerClient
    from spark_kafka_sink.producer.producer_id import ProducerIdentity
    from spark_kafka_sink.producer.rows import Rows
    from spark_kafka_sink.producer.session_settings import SessionSettings
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.progress_counts import ProgressCounts
    from spark_kafka_sink.report.task_attempt import TaskAttempt

_ROWS_PER_SLICE = 64
"""Rows per partition below which the fixed cost of a slice exceeds the cost of its rows."""
_MIN_CHUNK_ROWS = 16_384
"""Rows per chunk below which the fixed cost of a chunk exceeds the cost of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionProgress:
    """Progress counters of a session.

    The counters are not read atomically, so some may be slightly newer than others.
    """

    counts: ProgressCounts
    is_buffer_full: bool
    """True while the writer waits for buffer space."""
    is_connected: bool
    """True while any broker is connected."""


class ProducerSession:
    """An idempotent producer session for one task; used by one thread.

    Args:
        client: connections and metadata, which may outlive the session.
        identity: the producer id to reuse; None for a new producer id. A transaction always
            gets a new producer id.
        settings: the sink's options; None for the defaults.
        executor: runs the compression, one batch at a time; None for a dedicated thread.
        transaction: the transaction to write in, if any.
    """

    def __init__(
        self,
        client: ProducerClient,
        *,
        identity: ProducerIdentity | None = None,
        settings: SessionSettings | None = None,
        executor: Executor | None = None,
        transaction: TransactionSettings | None = None,
    ) -> None:
        assembly = SessionAssembly(client, identity, settings, executor, transaction)
        self.client = client
        self.identity = assembly.identity
        self.transaction_manager = assembly.transaction_manager
        self.reporting = assembly.reporting
        self.buffer = assembly.buffer
        self.topics = assembly.topics
        self.partitioner = assembly.partitioner
        self._bad_rows = assembly.bad_rows
        self._dead_letter_topic = assembly.dead_letter_topic
        self._validator = assembly.make_validator()
        self.admission = assembly.make_admission_control()
        self._sticky = assembly.make_sticky_partitioner()
        self._encoder = assembly.make_encoder()
        self.sender = assembly.make_sender()
        self._recorder = self.reporting.builder.recorder
        self._started = client.clock.monotonic()
        self._last_slice_count = 0
        self._begin(assembly.settings)

    def append(self, rows: Rows) -> None:
        """Append n rows; block while the buffer is full.

        Raises:
            KafkaProdError: a row is invalid, or the session has failed.
        """
        self.client.check_process()
        if not len(rows):
            return
        clock = self.client.clock
        started, arrived_ms = clock.monotonic(), clock.wall_ms()
        self._recorder.serialize_time += rows.serialize_s
        for chunk in self._validator.validate(rows):
            for admitted in self.admission.admit(chunk):
                errors = self._write(admitted, arrived_ms)
                if errors is not None:
                    self._append_dead_letters(admitted.rows, errors, arrived_ms)
        self._recorder.append_time += clock.monotonic() - started

    @property
    def suggested_chunk_rows(self) -> int:
        """Suggested number of rows in the next chunk, based on the last partition count."""
        return max(_MIN_CHUNK_ROWS, self._last_slice_count * _ROWS_PER_SLICE)

    def flush(self) -> None:
        """Wait until every record is acknowledged, or raise the error that ended the session."""
        self.client.check_process()
        started = self.client.clock.monotonic()
        self.topics.finish_waiting()
        self.buffer.accumulator.flush()
        self._recorder.flush_time += self.client.clock.monotonic() - started

    def flush_transaction(self) -> TransactionalProducer | None:
        """Return the open transaction of a session after `flush`; it contains all of its records.

        Return None if nothing was appended, or if the session has no `TransactionSettings`. Block
        like `flush`, to raise the error if the session has failed since then.

        Raises:
            BaseException: the error that ended the session.
        """
        if self.transaction_manager is None:
            return None
        self.buffer.accumulator.flush()
        opened = self.transaction_manager.transaction
        # If the session failed after this flush, there is no transaction; raise the error.
        self.buffer.accumulator.flush()
        return opened

    @property
    def has_sent_init_producer_id(self) -> bool:
        """True if InitProducerId was sent, so the session might write to a shared transaction."""
        manager = self.transaction_manager
        return manager is not None and manager.has_sent_init_producer_id

    @property
    def transaction_started_ms(self) -> int | None:
        """Earliest time at which the transaction may have begun, in milliseconds since 1970."""
        manager = self.transaction_manager
        return None if manager is None else manager.timer.started_ms

    def abort_transaction(self, seconds: float) -> bool:
        """Send no more batches, and try to abort the transaction within `seconds`.

        Return True if there is nothing left to abort; otherwise the coordinator aborts the
        transaction after transaction.timeout.ms. Call this method before the session is discarded,
        even after a failure; it does not raise.
        """
        transaction_manager = self.transaction_manager
        if transaction_manager is None or self.client.is_forked:
            return transaction_manager is None
        transaction_manager.request_abort()
        clock = self.client.clock
        deadline = clock.monotonic() + seconds
        while not transaction_manager.ended.is_set() and not self.client.is_dead:
            self.client.network.wakeup()
            remaining_s = deadline - clock.monotonic()
            if remaining_s <= 0 or transaction_manager.ended.wait(min(remaining_s, THREAD_CHECK_S)):
                break
        return transaction_manager.has_ended

    def report(self, task: TaskAttempt) -> DeliveryReport:
        """Return the delivery report; it is complete after `flush`."""
        duration = self.client.clock.monotonic() - self._started
        topics = self.client.metadata.cluster.topics
        return self.reporting.builder.build(
            task,
            int(duration * 1000),
            bad_rows=self._bad_rows.build(),
            buffer=self.buffer.pool.usage(),
            topics=TopicCounts(
                partitions={name: topic.partition_count for name, topic in topics.items()},
                keyed_records=self.partitioner.keyed_rows,
                assigned_records=self.partitioner.assigned_rows,
            ),
        )

    @property
    def written_topics(self) -> tuple[WrittenTopic, ...]:
        """The names and ids of the topics that have acknowledged records of a flushed session."""
        return self.reporting.written.all()

    def progress(self) -> SessionProgress:
        """Return the session's progress; any thread may call this."""
        return SessionProgress(
            counts=self.reporting.builder.progress(),
            is_buffer_full=self.buffer.pool.writer_waiting_since is not None,
            is_connected=bool(list(self.client.network.connected())),
        )

    def close(self) -> None:
        """Detach the session from the client; records that were not flushed are dropped."""
        if self.client.is_forked:
            return  # The connections and locks belong to the parent process.
        try:
            self.client.detach()
            self.sender.finish()
        finally:
            self.buffer.compressor.close()

    def _write(self, chunk: AdmittedChunk, arrived_ms: int) -> NDArray[np.int8] | None:
        """Route, lay out, encode and append an admitted chunk.

        Return the `RowError` of each row, shape (n,), or None if all rows were written.
        """
        reserved = chunk.size
        try:
            routed = self._route(chunk)
            errors = self._breaker_errors(routed)
            if errors is not None:
                routed = routed.select(np.flatnonzero(errors == RowError.NONE))
            for ordered in self.admission.in_quota_order(routed):
                slices, charge = self._encoder.encode(ordered, arrived_ms)
                self._last_slice_count = len(slices)
                self.buffer.accumulator.append(slices, charge, ordered.size)
                reserved -= ordered.size
        finally:
            if reserved:
                self.buffer.accumulator.cancel_layout(reserved)
        return errors

    def _route(self, chunk: AdmittedChunk) -> RoutedChunk:
        route = self.partitioner.assign(chunk.rows, chunk.topics)
        route = self._sticky.assign(route, chunk.sizes, chunk.blocked_targets)
        return RoutedChunk(chunk.rows, chunk.topics, chunk.sizes, chunk.blocked_targets, route)

    def _breaker_errors(self, chunk: RoutedChunk) -> NDArray[np.int8] | None:
        """Return BREAKER_OPEN for rows whose partition's circuit breaker is open, shape (n,).

        Return None if there are no such rows. Also return None if these rows cannot be sent to a
        dead letter topic; in that case, they wait like other rows.
        """
        dead_letter_topic = self._dead_letter_topic
        if dead_letter_topic is None or chunk.rows.topics == (dead_letter_topic.name,):
            return None
        broken = chunk.route.rows_of(chunk.blocked_targets.breaker_open)
        if broken is None:
            return None
        return np.where(broken, np.int8(RowError.BREAKER_OPEN), np.int8(RowError.NONE))

    def _append_dead_letters(self, rows: Rows, errors: NDArray[np.int8], arrived_ms: int) -> None:
        """Append dead letters for the rows that were not written."""
        for dead_letters in self._validator.record_bad_rows(rows, errors):
            for admitted in self.admission.admit(dead_letters):
                self._write(admitted, arrived_ms)

    def _begin(self, settings: SessionSettings) -> None:
        client, topic = self.client, self._dead_letter_topic
        self.reporting.events.on_opened(client.name, client.config.buffer_memory)
        client.network.set_client_id(settings.client_id)
        client.attach(self.sender)
        client.metadata.assume(settings.assumed_topics)
        if topic is not None:
            self.topics.add_topics((topic.name,))
