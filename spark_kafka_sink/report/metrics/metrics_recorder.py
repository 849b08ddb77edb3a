"""The counters of a running producer, from which its metrics are built.

The sender thread updates the counters of batches and requests, and the writing thread those of
its own time. Any thread can call `build`, with the counts that other parts of the session keep.
The result can be slightly out of date.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.common.close_reason import CloseReason
from spark_kafka_sink.common.histogram import MICROS_PER_S, HistogramBuilder, Meter
from spark_kafka_sink.kafka.client.broker_meters import BrokerMeter, BrokerMeters
from spark_kafka_sink.report.metrics import producer_metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class BatchSent(NamedTuple):
    """A batch that is sent for the first time. Times are in seconds, sizes in bytes."""

    topic: str
    records: int
    bytes_uncompressed: int
    bytes_sent: int
    queue_times: Sequence[tuple[float, int]]
    """(waiting time, number of records that waited this long)."""
    fill_time: float
    close_reason: CloseReason | None
    """None for a batch that the sender created: a piece of a rejected batch, or dead letters."""
    compression: float | None
    """None if the batch was not compressed."""


class BufferUsage(NamedTuple):
    """How a session has used buffer.memory so far."""

    waits: int = 0
    """Number of times that the writer waited for free buffer memory."""
    wait: float = 0.0
    """Total seconds of these waits."""
    peak: int = 0
    """Maximum number of bytes in the buffer."""


class TopicCounts(NamedTuple):
    """Counts by topic. The fields have the same names as in `TopicMetrics`."""

    partitions: Mapping[str, int] = {}
    keyed_records: Mapping[str, int] = {}
    assigned_records: Mapping[str, int] = {}

    def of(self, topic: str) -> dict[str, int]:
        """Return the counts of a topic, by name."""
        return {name: counts.get(topic, 0) for name, counts in self._asdict().items()}


class _TopicMeter(Meter):
    """The counters of one topic; see `TopicMetrics`."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.retried_records = 0
        self.batch_size = HistogramBuilder()
        self.batch_records = HistogramBuilder()


class MetricsRecorder:
    """Records the metrics of one session; `settings` contains the advisor's options, by name."""

    def __init__(self, settings: tuple[tuple[str, str], ...] = ()) -> None:
        self.brokers = BrokerMeters()
        self.topics: dict[str, _TopicMeter] = {}
        self.settings = settings
        self.append_time = self.flush_time = 0.0
        """Total seconds of `append`, and of waiting for the last acknowledgements."""
        self.serialize_time = 0.0
        """Total seconds spent serializing rows."""
        self._fill = HistogramBuilder()
        self._compression = HistogramBuilder()
        self._rate = HistogramBuilder()
        self._request_records = HistogramBuilder()
        self._closed = dict.fromkeys(CloseReason, 0)

    def add_batch(self, sent: BatchSent, broker: BrokerMeter) -> None:
        """Record a batch that is sent to `broker` for the first time."""
        topic = self._topic(sent.topic)
        topic.batch_size.add(sent.bytes_sent)
        topic.batch_records.add(sent.records)
        broker.int_latency.add_durations(sent.queue_times)
        if sent.close_reason is not None:
            self._fill.add_duration(sent.fill_time)
            self._closed[sent.close_reason] += 1
        if sent.compression is not None:
            self._compression.add_duration(sent.compression)
            self._rate.add(sent.bytes_sent * producer_metrics.MILLIONTHS // sent.bytes_uncompressed)

    def count_retried(self, topic: str, records: int) -> None:
        """Record a retried batch with `records` records."""
        self._topic(topic).retried_records += records

    def add_request(self, records: int) -> None:
        """Record a Produce request with `records` records."""
        self._request_records.add(records)

    def build(self, buffer: BufferUsage, topics: TopicCounts) -> producer_metrics.ProducerMetrics:
        """Return the metrics so far."""
        return producer_metrics.ProducerMetrics(
            fill_time=self._fill.build(),
            compression_time=self._compression.build(),
            compression_rate=self._rate.build(),
            request_records=self._request_records.build(),
            buffer_waits=buffer.waits,
            buffer_wait=int(buffer.wait * MICROS_PER_S),
            append_time=int(self.append_time * MICROS_PER_S),
            flush_time=int(self.flush_time * MICROS_PER_S),
            buffer_peak=buffer.peak,
            serialize_time=int(self.serialize_time * MICROS_PER_S),
            brokers=tuple(
                producer_metrics.BrokerMetrics(
                    **_build_fields(producer_metrics.BrokerMetrics, vars(meter))
                )
                for _, meter in sorted(self.brokers.copy().items())
            ),
            topics=tuple(
                producer_metrics.TopicMetrics(
                    **_build_fields(
                        producer_metrics.TopicMetrics, {**vars(meter), **topics.of(name)}
                    )
                )
                for name, meter in sorted(self.topics.copy().items())
            ),
            settings=self.settings,
            **{f"closed_{reason}": times for reason, times in self._closed.items()},
        )

    def _topic(self, name: str) -> _TopicMeter:
        meter = self.topics.get(name)
        if meter is None:
            meter = self.topics[name] = _TopicMeter(name)
        return meter


def _build_fields(kind: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values so far of the metrics of this kind, by name."""
    named = {field.name: values[field.name] for field in fields(kind)}
    return {
        name: value.build() if isinstance(value, HistogramBuilder) else value
        for name, value in named.items()
    }
