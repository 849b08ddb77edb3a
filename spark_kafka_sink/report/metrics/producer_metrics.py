"""Metrics of a producer, which correspond to the metrics of Java's producer and of librdkafka.

They are part of the delivery report and, like the report, are merged over tasks. Times are in
microseconds unless a docstring specifies a different unit; sizes are in bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.common.histogram import Histogram
from spark_kafka_sink.report.metrics.merging import (
    flat,
    histogram_field,
    key_field,
    merge,
    merge_groups,
    merged_field,
    readers_of,
    summed_field,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MILLIONTHS = 1_000_000
"""Factor for compression rates, which are stored in millionths because sums of whole numbers are
exact in any order.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetrics:
    """The metrics of one broker, named as in librdkafka's statistics."""

    node_id: int = key_field(int)
    """The broker's id."""
    name: str = key_field(str)
    """The broker's address as host:port."""
    tx: int = summed_field()
    """Number of completely written requests, including those of connection handshakes."""
    tx_bytes: int = summed_field()
    """Bytes sent."""
    rx: int = summed_field()
    """Number of responses received, including those of connection handshakes."""
    rx_bytes: int = summed_field()
    """Bytes received."""
    tx_errors: int = summed_field()
    """Number of requests that never got a response."""
    timeouts: int = summed_field()
    """Number of requests in `tx_errors` that were in flight when the oldest request exceeded
    request.timeout.ms.
    """
    connects: int = summed_field()
    """Number of connection attempts."""
    disconnects: int = summed_field()
    """Number of connections and connection attempts that ended."""
    int_latency: Histogram = histogram_field()
    """For each record, the time from the arrival of its chunk to the first request with its batch.
    """
    outbuf_latency: Histogram = histogram_field()
    """Time from sending a request until it is completely written to the socket."""
    rtt: Histogram = histogram_field()
    """Time from when a request is completely written until its response arrives."""
    throttle: Histogram = histogram_field()
    """Pause requested by each Produce response, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics:
    """The metrics of one topic."""

    topic: str = key_field(str)
    """The topic's name."""
    partitions: int = merged_field(max, read=int)
    """Number of the topic's partitions, including those without records; 0 if unknown."""
    keyed_records: int = summed_field()
    """Number of rows whose partition was chosen by the hash of the key."""
    assigned_records: int = summed_field()
    """Number of rows whose partition comes from the column `partition`."""
    retried_records: int = summed_field()
    """Number of records in retried batches, counted at each retry."""
    batch_size: Histogram = histogram_field()
    """Bytes per batch on the wire."""
    batch_records: Histogram = histogram_field()
    """Records per batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """The metrics of a producer, or the sum for all producers in a job.

    `ProducerMetrics()` is the identity element of `merge_all`.
    """

    fill_time: Histogram = histogram_field()
    """Time from a batch's first record until it was closed."""
    compression_time: Histogram = histogram_field()
    """Compression time of a batch."""
    compression_rate: Histogram = histogram_field()
    """Compressed size divided by uncompressed size, in millionths; compressed batches only."""
    request_records: Histogram = histogram_field()
    """Records per Produce request."""
    closed_full: int = summed_field()
    """Number of batches closed because they had reached batch.size."""
    closed_linger: int = summed_field()
    """Number of batches closed because linger.ms had passed."""
    closed_flush: int = summed_field()
    """Number of batches closed because no more rows could join them: at the end of a task, or after
    rows of their topic began to get a partition.
    """
    closed_memory: int = summed_field()
    """Number of batches closed early because the writer waited for free buffer memory."""
    buffer_waits: int = summed_field()
    """Number of times that `append` waited for free buffer memory."""
    buffer_wait: int = summed_field()
    """Total time that `append` waited for free buffer memory."""
    append_time: int = summed_field()
    """Total time of `append`, including `buffer_wait`, validation, encoding and the wait for the
    first metadata.
    """
    flush_time: int = summed_field()
    """Total time that tasks waited for the last acknowledgements, after their last row."""
    buffer_peak: int = merged_field(max, read=int)
    """Maximum number of bytes in the buffer."""
    serialize_time: int = summed_field()
    """Total time that tasks spent serializing columns; 0 if key and value are raw columns."""
    brokers: tuple[BrokerMetrics, ...] = merged_field(
        flat(partial(merge_groups, BrokerMetrics)), ()
    )
    """Metrics per broker, sorted by node id."""
    topics: tuple[TopicMetrics, ...] = merged_field(flat(partial(merge_groups, TopicMetrics)), ())
    """Metrics per topic, sorted by name."""
    settings: tuple[tuple[str, str], ...] = merged_field(max, ())
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
    def merge_all(cls, all_metrics: Iterable[ProducerMetrics]) -> Self:
        """Return the sum of all metrics.

        If settings differ, the result contains the greatest value.
        """
        return merge(cls, [cls(), *all_metrics])

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics for JSON."""
        return {
            **_fields_to_json(self),
            "brokers": [_fields_to_json(broker) for broker in self.brokers],
            "topics": [_fields_to_json(topic) for topic in self.topics],
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Parse the result of `to_dict`."""
        return cls(
            **_fields_from_json(cls, data),
            brokers=tuple(
                BrokerMetrics(**_fields_from_json(BrokerMetrics, broker))
                for broker in data["brokers"]
            ),
            topics=tuple(
                TopicMetrics(**_fields_from_json(TopicMetrics, topic)) for topic in data["topics"]
            ),
            settings=tuple(sorted((str(k), str(v)) for k, v in data["settings"].items())),
        )


def _fields_to_json(part: Any) -> dict[str, Any]:
    values = ((name, getattr(part, name)) for name in readers_of(type(part)))
    return {
        name: value.to_dict() if isinstance(value, Histogram) else value for name, value in values
    }


def _fields_from_json(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Read the fields of a part. Counters that older reports do not contain are 0."""
    return {
        name: read(data.get(name, 0) if read is int else data[name])
        for name, read in readers_of(kind).items()
    }
