"""Metrics of a producer, which correspond to the metrics of Java's producer and of librdkafka.

They are part of the delivery report and, like the report, are merged over tasks. Times are in
microseconds unless a docstring specifies a different unit; sizes are in bytes.

`MetricsRecorder` contains the counters of a running producer, from which the metrics are built.
Only the sender thread updates the counters, once per batch and per request. The metrics of the
buffer are an exception: `BufferPool.measure` copies them before a report is built. Any thread can
call `build`. The result can be slightly out of date.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from spark_kafka_sink.report.metrics.histogram import Histogram, HistogramBuilder
from spark_kafka_sink.report.metrics.merging import (
    counter,
    distribution,
    flat,
    merge,
    merge_groups,
    merged,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

MILLION = 1_000_000
"""Factor for compression rates, which are stored in millionths because sums of whole numbers are
exact in any order.
"""
_READERS: dict[str, Callable[[Any], Any]] = {
    "Histogram": Histogram.from_dict,
    "int": int,
    "str": str,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetrics:
    """The metrics of one broker, named as in librdkafka's statistics."""

    node_id: int
    """The broker's id."""
    name: str
    """The broker's address as host:port."""
    tx: int = counter()
    """Number of completely written requests, including those of connection handshakes."""
    tx_bytes: int = counter()
    """Bytes sent."""
    rx: int = counter()
    """Number of responses received, including those of connection handshakes."""
    rx_bytes: int = counter()
    """Bytes received."""
    tx_errors: int = counter()
    """Number of requests that never got a response."""
    timeouts: int = counter()
    """Number of requests in `tx_errors` that were in flight when the oldest request exceeded
    request.timeout.ms.
    """
    connects: int = counter()
    """Number of connection attempts."""
    disconnects: int = counter()
    """Number of connections and connection attempts that ended."""
    int_latency: Histogram = distribution()
    """For each record, the time from the arrival of its chunk to the first request with its batch.
    """
    outbuf_latency: Histogram = distribution()
    """Time from sending a request until it is completely written to the socket."""
    rtt: Histogram = distribution()
    """Time from when a request is completely written until its response arrives."""
    throttle: Histogram = distribution()
    """Pause requested by each Produce response, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics:
    """The metrics of one topic."""

    topic: str
    """The topic's name."""
    partitions: int = merged(max)
    """Number of the topic's partitions, including those without records; 0 if unknown."""
    keyed_records: int = counter()
    """Number of rows whose partition was chosen by the hash of the key."""
    assigned_records: int = counter()
    """Number of rows whose partition comes from the column `partition`."""
    retried_records: int = counter()
    """Number of records in retried batches, counted at each retry."""
    batch_size: Histogram = distribution()
    """Bytes per batch on the wire."""
    batch_records: Histogram = distribution()
    """Records per batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """The metrics of a producer, or the sum for all producers in a job.

    `ProducerMetrics()` is the identity element of `merge_all`.
    """

    fill_time: Histogram = distribution()
    """Time from a batch's first record until it was closed."""
    compression_time: Histogram = distribution()
    """Compression time of a batch."""
    compression_rate: Histogram = distribution()
    """Compressed size divided by uncompressed size, in millionths; compressed batches only."""
    request_records: Histogram = distribution()
    """Records per Produce request."""
    closed_full: int = counter()
    """Number of batches closed because they had reached batch.size."""
    closed_linger: int = counter()
    """Number of batches closed because linger.ms had passed."""
    closed_flush: int = counter()
    """Number of batches closed because the task had no more rows."""
    closed_memory: int = counter()
    """Number of batches closed early because the writer waited for free buffer memory."""
    buffer_waits: int = counter()
    """Number of times that `write()` waited for free buffer memory."""
    buffer_wait: int = counter()
    """Total time that `write()` waited for free buffer memory."""
    append_time: int = counter()
    """Total time of `write()`, including `buffer_wait`, validation, encoding and the wait for the
    first metadata.
    """
    flush_time: int = counter()
    """Total time that tasks waited for the last acknowledgements, after their last row."""
    buffer_peak: int = merged(max)
    """Maximum number of bytes in the buffer."""
    serialize_time: int = counter()
    """Total time that tasks spent serializing columns; 0 if key and value are raw columns."""
    brokers: tuple[BrokerMetrics, ...] = merged(flat(partial(merge_groups, BrokerMetrics)), ())
    """Metrics per broker, sorted by node id."""
    topics: tuple[TopicMetrics, ...] = merged(flat(partial(merge_groups, TopicMetrics)), ())
    """Metrics per topic, sorted by name."""
    settings: tuple[tuple[str, str], ...] = merged(max, ())
    """The producer's options that the advisor uses, under Kafka's names."""

    @property
    def topic_partitions(self) -> dict[str, int]:
        """The partition count of each topic; 0 if unknown."""
        return {topic.topic: topic.partitions for topic in self.topics}

    @property
    def batch_size(self) -> Histogram:
        """Bytes per batch on the wire, for all topics."""
        return Histogram.merge_all(topic.batch_size for topic in self.topics)

    @property
    def batch_records(self) -> Histogram:
        """Records per batch, for all topics."""
        return Histogram.merge_all(topic.batch_records for topic in self.topics)

    @property
    def retried_records(self) -> int:
        """Number of records in retried batches, for all topics."""
        return sum(topic.retried_records for topic in self.topics)

    @property
    def throttle(self) -> Histogram:
        """Pauses requested by Produce responses of all brokers, in milliseconds."""
        return Histogram.merge_all(broker.throttle for broker in self.brokers)

    @property
    def rtt(self) -> Histogram:
        """Round-trip times of requests to all brokers."""
        return Histogram.merge_all(broker.rtt for broker in self.brokers)

    @property
    def closed(self) -> int:
        """Number of batches closed, for any reason."""
        return self.closed_full + self.closed_linger + self.closed_flush + self.closed_memory

    @classmethod
    def merge_all(cls, parts: Iterable[ProducerMetrics]) -> Self:
        """Return the sum of all parts.

        If settings differ, the result contains the greatest value.
        """
        return merge(cls, [cls(), *parts])

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics for JSON."""
        return {
            **_plain(self),
            "brokers": [_plain(broker) for broker in self.brokers],
            "topics": [_plain(topic) for topic in self.topics],
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the result of `to_dict`."""
        return cls(
            **_read(cls, data),
            brokers=tuple(
                BrokerMetrics(**_read(BrokerMetrics, broker)) for broker in data["brokers"]
            ),
            topics=tuple(TopicMetrics(**_read(TopicMetrics, topic)) for topic in data["topics"]),
            settings=tuple(sorted((str(k), str(v)) for k, v in data["settings"].items())),
        )


def _columns(kind: type) -> list[tuple[str, str]]:
    """Return the names and types of the fields that are not tuples."""
    columns = [(field.name, str(field.type)) for field in fields(kind)]
    return [column for column in columns if not column[1].startswith("tuple")]


def _plain(part: Any) -> dict[str, Any]:
    values = ((name, getattr(part, name)) for name, _ in _columns(type(part)))
    return {
        name: value.to_dict() if isinstance(value, Histogram) else value for name, value in values
    }


def _read(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a part. Counters that older reports do not contain are 0."""
    return {
        name: _READERS[type_name](data.get(name, 0) if type_name == "int" else data[name])
        for name, type_name in _columns(kind)
    }


class CloseReason(StrEnum):
    """The reason why a batch was closed."""

    FULL = "full"
    LINGER = "linger"
    FLUSH = "flush"
    MEMORY = "memory"
    """The writer waits for free buffer memory."""


class BatchSent(NamedTuple):
    """A batch that is sent for the first time. Times are in seconds, sizes in bytes.

    `queue_times` contains (waiting time, number of records that waited this long). `compression` is
    None if the batch was not compressed.
    """

    topic: str
    records: int
    raw_bytes: int
    wire_bytes: int
    queue_times: Sequence[tuple[float, int]]
    fill_time: float
    close_reason: CloseReason
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
        self.node_id = node_id
        self.name = name
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
        topic.batch_size.add(sent.wire_bytes)
        topic.batch_records.add(sent.records)
        broker.int_latency.add_times(sent.queue_times)
        self._fill.add_time(sent.fill_time)
        self._closed[sent.close_reason] += 1
        if sent.compression is not None:
            self._compression.add_time(sent.compression)
            self._rate.add(sent.wire_bytes * MILLION // sent.raw_bytes)

    def count_retried(self, topic: str, records: int) -> None:
        """Record a retried batch with `records` records."""
        self._topic(topic).retried_records += records

    def add_request(self, records: int) -> None:
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
            serialize_time=int(self.serialize_time * 1_000_000),
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
