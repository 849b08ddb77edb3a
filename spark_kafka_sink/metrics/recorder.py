"""The counters of a running producer, from which `producer_metrics` are built.

Only the sender thread updates the counters, once per batch and per request. The metrics of the
buffer are an exception: `BufferPool.measure` copies them before a report is built. Any thread can
call `build`. The result can be slightly out of date.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.metrics.histogram import Histogram, HistogramBuilder
from spark_kafka_sink.metrics.producer_metrics import (
    MILLION,
    BrokerMetrics,
    ProducerMetrics,
    TopicMetrics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class CloseReason(StrEnum):
    """The reason why a batch was closed."""

    FULL = "full"
    LINGER = "linger"
    FLUSH = "flush"
    MEMORY = "memory"
    """The writer waits for free buffer memory."""


class BatchSent(NamedTuple):
    """A batch that is sent for the first time. Times are in seconds, sizes in bytes.

    `queued` contains (waiting time, number of records that waited this long). `compression` is
    None if the batch was not compressed.
    """

    topic: str
    records: int
    raw_bytes: int
    wire_bytes: int
    queued: Sequence[tuple[float, int]]
    filled: float
    closed: CloseReason
    compression: float | None


class _Meter:
    """Counters and histograms with the names of the metrics that are built from them."""

    def roll(self) -> dict[str, Histogram]:
        """Return the histograms of the values since the last call, by name."""
        values = vars(self).items()
        return {name: value.roll() for name, value in values if isinstance(value, HistogramBuilder)}

    def _built(self, kind: type) -> dict[str, Any]:
        values = ((field.name, getattr(self, field.name)) for field in fields(kind))
        return {
            name: value.build() if isinstance(value, HistogramBuilder) else value
            for name, value in values
        }


class BrokerMeter(_Meter):
    """The counters and times of one broker; see `BrokerMetrics`.

    Some counters are included in the statistics but not in the report: `requests` (written, by API
    key), `retries` (requests with a retried batch), `rx_errors` (invalid responses) and
    `correlation_errors` (invalid responses that match no request).
    """

    def __init__(self, node_id: int, name: str) -> None:
        self.node_id, self.name = node_id, name
        self.tx = self.tx_bytes = self.rx = self.rx_bytes = 0
        self.tx_errors = self.timeouts = self.connects = self.disconnects = 0
        self.retries = self.rx_errors = self.correlation_errors = 0
        self.requests: Counter[int] = Counter()
        self.int_latency = HistogramBuilder()
        self.outbuf_latency = HistogramBuilder()
        self.rtt = HistogramBuilder()
        self.throttle = HistogramBuilder()

    def written(self, api: int, waited: float) -> None:
        """Count a request that was completely written after waiting `waited` seconds."""
        self.tx += 1
        self.requests[api] += 1
        self.outbuf_latency.add_time(waited)

    def build(self) -> BrokerMetrics:
        """Return the metrics so far."""
        return BrokerMetrics(**self._built(BrokerMetrics))


class TopicMeter(_Meter):
    """The counters of one topic; see `TopicMetrics`."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.partitions = self.retried_records = 0
        self.keyed_records = self.assigned_records = 0
        self.batch_size = HistogramBuilder()
        self.batch_records = HistogramBuilder()

    def build(self) -> TopicMetrics:
        """Return the metrics so far."""
        return TopicMetrics(**self._built(TopicMetrics))


class BrokerMeters(dict[int, BrokerMeter]):
    """The meters by node id, created on first access."""

    def of(self, node: Any) -> BrokerMeter:
        """Return the meter of a node, which has a `node_id` and host:port as its text."""
        meter = self.get(node.node_id)
        if meter is None:
            meter = self[node.node_id] = BrokerMeter(node.node_id, str(node))
        return meter


class MetricsRecorder:
    """The meters of one session; `settings` contains the options for the advisor, by name."""

    def __init__(self, settings: tuple[tuple[str, str], ...] = ()) -> None:
        self.brokers = BrokerMeters()
        self.topics: dict[str, TopicMeter] = {}
        self.settings = settings
        self.buffer_waits = 0
        self.buffer_wait = 0.0
        """Total seconds that `write()` waited for free buffer memory."""
        self.append_time = self.flush_time = 0.0
        """Total seconds of `write()`, and of waiting for the last acknowledgements."""
        self.buffer_peak = 0
        self.serialise_time = 0.0
        """Total seconds spent serializing rows."""
        self._fill = HistogramBuilder()
        self._compression = HistogramBuilder()
        self._rate = HistogramBuilder()
        self._request_records = HistogramBuilder()
        self._closed = dict.fromkeys(CloseReason, 0)

    def batch(self, sent: BatchSent, broker: BrokerMeter) -> None:
        """Record a batch that is sent to `broker` for the first time."""
        topic = self._topic(sent.topic)
        topic.batch_size.add(sent.wire_bytes)
        topic.batch_records.add(sent.records)
        broker.int_latency.add_times(sent.queued)
        self._fill.add_time(sent.filled)
        self._closed[sent.closed] += 1
        if sent.compression is not None:
            self._compression.add_time(sent.compression)
            self._rate.add(sent.wire_bytes * MILLION // sent.raw_bytes)

    def retried(self, topic: str, records: int) -> None:
        """Record a retried batch with `records` records."""
        self._topic(topic).retried_records += records

    def request(self, records: int) -> None:
        """Record a Produce request with `records` records."""
        self._request_records.add(records)

    def build(self) -> ProducerMetrics:
        """Return the metrics so far."""
        return ProducerMetrics(
            fill_time=self._fill.build(),
            compression_time=self._compression.build(),
            compression_rate=self._rate.build(),
            request_records=self._request_records.build(),
            buffer_waits=self.buffer_waits,
            buffer_wait=int(self.buffer_wait * MILLION),
            append_time=int(self.append_time * MILLION),
            flush_time=int(self.flush_time * MILLION),
            buffer_peak=self.buffer_peak,
            serialise_time=int(self.serialise_time * 1_000_000),
            brokers=tuple(meter.build() for _, meter in sorted(self.brokers.copy().items())),
            topics=tuple(meter.build() for _, meter in sorted(self.topics.copy().items())),
            settings=self.settings,
            **{f"closed_{reason}": times for reason, times in self._closed.items()},
        )

    def _topic(self, name: str) -> TopicMeter:
        meter = self.topics.get(name)
        if meter is None:
            meter = self.topics[name] = TopicMeter(name)
        return meter
