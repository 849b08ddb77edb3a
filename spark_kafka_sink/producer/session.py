"""One task's producer: rows go in, acknowledged batches and a delivery report come out.

The writer thread's side of the pipeline: route, plan, encode, append. See the package docstring
for the way of a record.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from spark_kafka_sink.client.topic_partition import UNASSIGNED, TopicPartition
from spark_kafka_sink.common.errors import DeliveryError, RecordTooLargeError
from spark_kafka_sink.producer.append.admission import AdmissionControl, Routed
from spark_kafka_sink.producer.append.partitioner import Partitioner, Route
from spark_kafka_sink.producer.append.planner import BatchLimits, Plan, plan
from spark_kafka_sink.producer.append.sticky_partitioner import StickyPartitioner
from spark_kafka_sink.producer.append.topic_metadata import TopicMetadata
from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.batch import EncodedSlice, ProducerBatch
from spark_kafka_sink.producer.buffer.buffer_pool import Charge
from spark_kafka_sink.producer.buffer.compressor import Compressor
from spark_kafka_sink.producer.context import make_context
from spark_kafka_sink.producer.producer_state import ProducerState
from spark_kafka_sink.producer.row_errors import Limits, RowError, find_flaws, out_of_range
from spark_kafka_sink.producer.send.sender import Sender
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.records.encoder import encode_records, size_bounds, slice_records
from spark_kafka_sink.records.record_batch import HEADER_SIZE

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_kafka_sink.client.client import Client
    from spark_kafka_sink.client.cluster import TopicInfo
    from spark_kafka_sink.producer.rows import Rows
    from spark_kafka_sink.report.delivery_report import DeliveryReport
    from spark_kafka_sink.report.task_report import TaskInfo


class ProducerSession:
    """An idempotent producer session for one task; used by one thread.

    Args:
        client: connections and metadata, which may outlive the session.
        identity: the producer id to go on with, or a new one.
        settings: the sink's own options; None for their defaults.
    """

    def __init__(
        self,
        client: Client,
        identity: ProducerState | None = None,
        settings: SessionSettings | None = None,
    ) -> None:
        self.client = client
        self.identity = identity or ProducerState()
        self.context = make_context(client, self.identity, settings or SessionSettings())
        self._config, self._clock = client.config, client.clock
        self._limits = BatchLimits(client.config.batch_size, client.config.batch_num_messages)
        self._started = self._clock.monotonic()
        self._arrived_ms = 0
        """When the rows came that are being written: their time, where they have none."""
        events = self.context.events
        self._codec = Compressor()
        self._accumulator = Accumulator(
            client.config, client.clock, self._compress_later, client.network.wakeup, events
        )
        self._accumulator.look_after = self._look_after_threads
        self._bad_rows, self._dead_letters = self.context.bad_rows, self.context.dead_letters
        self._topics = TopicMetadata(client, self._accumulator)
        self._gate = AdmissionControl(self.context, self._accumulator)
        self._partitioner = Partitioner(client.config, client.random)
        self._sticky = StickyPartitioner(self.context, self._accumulator, self._gate)
        events.opened(client.name, client.config.buffer_memory)
        self._sender = Sender(self.context, self._accumulator)
        if self._dead_letters is not None:
            self._accumulator.want_topics((self._dead_letters.name,))
        client.attach(self._sender)

    def append(self, rows: Rows) -> None:
        """Take n rows over; blocks while the buffer is full.

        Raises:
            KafkaProdError: a row is wrong, or the session has failed, as the message says.
        """
        self.client.check_process()
        if not len(rows):
            return
        self._arrived_ms = self._clock.wall_ms()
        sizes = size_bounds(rows.columns)
        if self.context.settings.poison.tolerant:
            self._write_sound(rows, sizes)
        else:
            self._write(rows, self._look_up(rows), sizes)

    def _write_sound(self, rows: Rows, sizes: NDArray[np.int64]) -> None:
        """Send the poison rows to the dead letter topic, if there is one; write the others."""
        self._bad_rows.seen(len(rows))
        topics = self._topics.find(rows.topics)
        if self._has_news(rows, topics):
            topics = self._topics.find(rows.topics)
        flaws = find_flaws(rows, sizes, Limits(topics, self.context.largest_record - HEADER_SIZE))
        if flaws is not None:
            self._bury(rows, flaws)
            good = np.flatnonzero(flaws == RowError.NONE)
            rows, sizes = rows.take(good), sizes[good]
        sound = [number for number, topic in enumerate(topics) if not isinstance(topic, RowError)]
        if len(sound) < len(topics):
            rows = rows.with_topics(sound)
        self._write(rows, tuple(t for t in topics if not isinstance(t, RowError)), sizes)

    def _bury(self, rows: Rows, flaws: NDArray[np.int8]) -> None:
        """Count the rows that have a flaw; write them to the dead letter topic, if there is one."""
        self._bad_rows.admit(rows, flaws)
        if self._dead_letters is None:
            return
        bad = np.flatnonzero(flaws)
        letters = self._dead_letters.letters(rows.take(bad), flaws[bad])
        where = self._topics.lookup(letters.topics)
        self._write(letters, where, size_bounds(letters.columns))

    def _look_up(self, rows: Rows) -> tuple[TopicInfo, ...]:
        """The rows' topics; waits for what is not known of them, if they can't do without."""
        if self._partitioner.may_choose_later(rows):
            return self._topics.expect(rows.topics)
        topics = self._topics.lookup(rows.topics)
        return self._topics.lookup(rows.topics) if self._has_news(rows, topics) else topics

    def _has_news(self, rows: Rows, topics: tuple[TopicInfo | RowError, ...]) -> bool:
        """Rows name partitions that were not known, and the brokers have been asked again."""
        return out_of_range(rows, topics) is not None and self._topics.look_again()

    def _write(self, rows: Rows, topics: tuple[TopicInfo, ...], sizes: NDArray[np.int64]) -> None:
        if not len(rows):
            return
        if int(sizes.max()) + HEADER_SIZE > self.context.largest_record:
            self._refuse_oversized(rows, topics, sizes, int(sizes.argmax()))
        chunks = self._gate.chunks(sizes)
        if len(chunks) == 1:
            self._append(rows, topics, sizes)
            return
        for start, stop in chunks:
            self._append(rows.slice(start, stop), topics, sizes[start:stop])

    def flush(self) -> None:
        """Wait until every record is acknowledged; raises what ended the session otherwise."""
        self.client.check_process()
        self._topics.settle()
        self._accumulator.flush()

    def report(self, task: TaskInfo) -> DeliveryReport:
        """What was delivered where; complete after `flush`."""
        duration = self._clock.monotonic() - self._started
        self._accumulator.measure(self.context.report.meters)
        report = self.context.report.build(task, int(duration * 1000))
        return replace(report, poison=self._bad_rows.build()).of_task(task)

    def close(self) -> None:
        """Let go of the client; what was not flushed is dropped."""
        if self.client.is_forked:
            return  # connections and locks are the parent's
        self.client.detach()
        self._sender.finished()
        self._codec.shutdown()

    def _append(self, rows: Rows, topics: tuple[TopicInfo, ...], sizes: NDArray[np.int64]) -> None:
        reserved = int(sizes.sum())
        self._gate.await_rate(len(rows), reserved)
        self._reserve(reserved)
        try:
            route = self._sticky.settle(self._partitioner.assign(rows, topics), sizes)
            whole = Routed(rows, sizes, route, reserved)
            broken = self._broken(whole)
            sound = whole if broken is None else whole.take(np.flatnonzero(broken == RowError.NONE))
            for chunk in self._gate.in_turn(sound) if len(sound.rows) else ():
                pieces, charge = self._encode(chunk)
                self._accumulator.append(pieces, charge, chunk.size)
                reserved -= chunk.size
        except BaseException:
            self._accumulator.give_up(reserved)
            raise
        if broken is not None:
            self._accumulator.give_up(reserved)
            self._bury(rows, broken)

    def _reserve(self, size: int) -> None:
        """Wait for room; what waits for its topic to be known would make none."""
        with self._accumulator.lock:
            has_room = self._accumulator.memory.fits(size)
        if not has_room:
            self._topics.settle()
        self._accumulator.reserve(size)

    def _broken(self, routed: Routed) -> NDArray[np.int8] | None:
        """Marks rows whose partition's circuit breaker is open, if they can go elsewhere."""
        letters = self._dead_letters
        if letters is None or routed.rows.topics == (letters.name,):
            return None
        broken = self._gate.broken_rows(routed)
        if broken is None:
            return None
        return np.where(broken, np.int8(RowError.BREAKER_OPEN), np.int8(RowError.NONE))

    def _encode(self, chunk: Routed) -> tuple[list[EncodedSlice], Charge]:
        rows, sizes, route, _ = chunk
        own = rows.columns.timestamps
        stamps = self._arrived_ms if own is None else own
        names = _Names(route)
        self._accumulator.begin()
        layout = plan(
            route.targets,
            sizes,
            stamps,
            lambda target: self._accumulator.open_batch(names[target]),
            self._limits_of(names) if self.client.ceilings else self._limits,
        )
        encoded = encode_records(
            rows.columns, layout.offset_deltas, layout.timestamp_deltas, layout.order
        )
        return _cut(encoded, layout, names, stamps)

    def _limits_of(self, names: _Names) -> BatchLimits:
        """The limits where a topic is known to take smaller batches than batch.size."""
        ceilings, now = self.client.ceilings, self._clock.monotonic()
        largest = self._limits.size
        return replace(
            self._limits, lower=lambda target: ceilings.of(names[target].topic, now) or largest
        )

    def _refuse_oversized(
        self, rows: Rows, topics: tuple[TopicInfo, ...], sizes: NDArray[np.int64], row: int
    ) -> None:
        route = self._partitioner.assign(rows, topics)
        topic, partition = route.target(int(route.targets[row]))
        limit = self.context.largest_record
        name = "max.request.size" if limit == self._config.max_request_size else "buffer.memory"
        raise RecordTooLargeError(
            f"row {rows.first_row + row} is {int(sizes[row]) + HEADER_SIZE:,} bytes when "
            f"serialized, more than {name} = {limit:,}",
            topic=topic.name,
            partition=None if partition == UNASSIGNED else partition,
            hint=f"raise kafka.{name} (and the topic's max.message.bytes), or make the row smaller",
        )

    def _compress_later(self, batch: ProducerBatch) -> None:
        self._codec.submit(self._compress, batch)

    def _compress(self, batch: ProducerBatch) -> None:
        codec, started = self._config.compression_type, self._clock.monotonic()
        try:
            payload = batch.compressed(codec, self._config.compression_level)
            batch.compression = self._clock.monotonic() - started
            self._accumulator.compressed(batch, payload, codec)
        except BaseException as error:  # noqa: BLE001 - in a thread of its own it would be lost
            self._sender.failure_elsewhere = error
            self.client.network.wakeup()

    def _look_after_threads(self) -> None:
        """End the session if a thread is gone that would have to do what the writer waits for."""
        if self.client.gone:
            hint = "run the write again; the log of the worker process may say why it ended"
            self._sender.crashed(DeliveryError("the sender thread has died", hint=hint))
        elif self._codec.gone:
            self._sender.failure_elsewhere = RuntimeError("the codec thread has died")
            self.client.network.wakeup()


class _Names(dict[int, TopicPartition]):
    """Topic and partition of each target number of a route, made when first asked for."""

    def __init__(self, route: Route) -> None:
        super().__init__()
        self._route = route

    def __missing__(self, target: int) -> TopicPartition:
        topic, partition = self._route.target(target)
        name = self[target] = TopicPartition(topic.name, partition)
        return name


def _cut(
    encoded: pa.BinaryArray, layout: Plan, names: _Names, stamps: NDArray[np.int64] | int
) -> tuple[list[EncodedSlice], Charge]:
    """The planned slices of the encoded rows, and the charge for the buffer that they share."""
    if layout.order is not None and not isinstance(stamps, int):
        stamps = stamps[layout.order]
    pieces = [
        EncodedSlice(
            names[segment.target],
            slice_records(encoded, segment.start, segment.stop),
            segment.stop - segment.start,
            segment.opens,
            segment.base_timestamp,
            stamps if isinstance(stamps, int) else int(stamps[segment.start : segment.stop].max()),
        )
        for segment in layout.segments
    ]
    size = slice_records(encoded, 0, len(encoded)).nbytes
    return pieces, Charge(size, holders=0)
