"""How a producer worked: what lies behind the metrics of Java's producer and of librdkafka.

All of it adds up over tasks, like the delivery report that carries it. Times are in microseconds
unless a name says otherwise, sizes in bytes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, fields
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self, TypeVar

from spark_kafka_sink.metrics.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

MILLION = 1_000_000
"""Compression rates are kept in millionths: whole numbers add up exactly in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerMetrics:
    """One broker as librdkafka's statistics describe it."""

    node_id: int
    """The broker's id."""
    name: str
    """host:port."""
    tx: int = 0
    """Requests that the socket has taken whole, those that open a connection included."""
    tx_bytes: int = 0
    """Bytes sent."""
    rx: int = 0
    """Responses received, those that open a connection included."""
    rx_bytes: int = 0
    """Bytes received."""
    tx_errors: int = 0
    """Requests that never got their answer."""
    timeouts: int = 0
    """Of these, the ones that waited for request.timeout.ms."""
    connects: int = 0
    """Connections made."""
    disconnects: int = 0
    """Connections ended."""
    int_latency: Histogram = field(default_factory=Histogram)
    """Each record's time from when its chunk came until its batch's first request."""
    outbuf_latency: Histogram = field(default_factory=Histogram)
    """A request's time until all of it is written to the socket."""
    rtt: Histogram = field(default_factory=Histogram)
    """From then to the answer."""
    throttle: Histogram = field(default_factory=Histogram)
    """Pause that each answer to a Produce request asked for, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetrics:
    """What was sent to one topic."""

    topic: str
    """The topic."""
    partitions: int = 0
    """Partitions that the topic has, those without records included; 0 where it is unknown."""
    keyed_records: int = 0
    """Rows whose partition the hash of the key decided."""
    assigned_records: int = 0
    """Rows whose partition the column `partition` named."""
    retried_records: int = 0
    """Records of batches that were sent again, each time."""
    batch_size: Histogram = field(default_factory=Histogram)
    """A batch's bytes on the wire."""
    batch_records: Histogram = field(default_factory=Histogram)
    """A batch's records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerMetrics:
    """A whole producer, or all of a job; `ProducerMetrics()` changes nothing in a merge."""

    fill_time: Histogram = field(default_factory=Histogram)
    """From a batch's first record until it was closed."""
    compression_time: Histogram = field(default_factory=Histogram)
    """A batch's time in the compressor."""
    compression_rate: Histogram = field(default_factory=Histogram)
    """Compressed over uncompressed size of a batch, in millionths; only of compressed batches."""
    request_records: Histogram = field(default_factory=Histogram)
    """Records of a Produce request."""
    closed_full: int = 0
    """Batches closed because they had reached batch.size."""
    closed_linger: int = 0
    """Batches closed because linger.ms had passed."""
    closed_flush: int = 0
    """Batches closed because the task had no more rows."""
    closed_memory: int = 0
    """Batches closed early because the writer waited for room in the buffer."""
    buffer_waits: int = 0
    """How often `write()` waited for room in the buffer."""
    buffer_wait: int = 0
    """Time that `write()` waited for room in the buffer, all waits together."""
    buffer_peak: int = 0
    """The most bytes in the buffer."""
    brokers: tuple[BrokerMetrics, ...] = ()
    """By node id."""
    topics: tuple[TopicMetrics, ...] = ()
    """By name."""
    settings: tuple[tuple[str, str], ...] = ()
    """The options that shape the pipeline, by Kafka's names, for the advisor."""

    @property
    def topic_partitions(self) -> dict[str, int]:
        """How many partitions each topic has; 0 where it is unknown."""
        return {each.topic: each.partitions for each in self.topics}

    @property
    def batch_size(self) -> Histogram:
        """Over all topics."""
        return Histogram.merge_all(topic.batch_size for topic in self.topics)

    @property
    def batch_records(self) -> Histogram:
        """Over all topics."""
        return Histogram.merge_all(topic.batch_records for topic in self.topics)

    @property
    def retried_records(self) -> int:
        """Over all topics."""
        return sum(topic.retried_records for topic in self.topics)

    @property
    def throttle(self) -> Histogram:
        """Over all brokers."""
        return Histogram.merge_all(broker.throttle for broker in self.brokers)

    @property
    def rtt(self) -> Histogram:
        """Over all brokers."""
        return Histogram.merge_all(broker.rtt for broker in self.brokers)

    @property
    def closed(self) -> int:
        """Batches closed, for whatever reason."""
        return self.closed_full + self.closed_linger + self.closed_flush + self.closed_memory

    @classmethod
    def merge_all(cls, parts: Iterable[ProducerMetrics]) -> Self:
        """All together; of differing settings the greatest stay."""
        metrics = list(parts)
        return cls(
            **_added(cls, metrics),
            buffer_peak=max((one.buffer_peak for one in metrics), default=0),
            brokers=_merged(BrokerMetrics, [each for one in metrics for each in one.brokers]),
            topics=_merged(TopicMetrics, [each for one in metrics for each in one.topics]),
            settings=max((one.settings for one in metrics), default=()),
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            **_plain(self),
            "brokers": [_plain(broker) for broker in self.brokers],
            "topics": [_plain(topic) for topic in self.topics],
            "settings": dict(self.settings),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what `to_dict` made."""
        return cls(
            **_read(cls, data),
            brokers=tuple(BrokerMetrics(**_read(BrokerMetrics, one)) for one in data["brokers"]),
            topics=tuple(TopicMetrics(**_read(TopicMetrics, one)) for one in data["topics"]),
            settings=tuple(sorted((str(k), str(v)) for k, v in data["settings"].items())),
        )


_KEYS = ("node_id", "name", "topic")
"""Fields that say what a part is about."""
_LATER = ("partitions", "keyed_records", "assigned_records")
"""Fields that were added to the parts of a report."""

Part = TypeVar("Part", BrokerMetrics, TopicMetrics)


def _key(part: Any) -> dict[str, Any]:
    return {name: getattr(part, name) for name in _KEYS if hasattr(part, name)}


def _merged(kind: type[Part], parts: Iterable[Part]) -> tuple[Part, ...]:
    """One part for each broker or topic, sorted."""
    groups: defaultdict[tuple[Any, ...], list[Part]] = defaultdict(list)
    for part in parts:
        groups[tuple(_key(part).values())].append(part)
    return tuple(
        same[0] if len(same) == 1 else kind(**_key(same[0]), **_added(kind, same))
        for _, same in sorted(groups.items(), key=itemgetter(0))
    )


def _added(kind: type, parts: list[Any]) -> dict[str, Any]:
    """Counters and distributions of several parts added up."""
    added: dict[str, Any] = {}
    for name, type_name in _columns(kind):
        values = [getattr(part, name) for part in parts]
        if type_name == "Histogram":
            added[name] = Histogram.merge_all(values)
        elif name == "partitions":
            added[name] = max(values)
        elif name not in (*_KEYS, "buffer_peak"):
            added[name] = sum(values)
    return added


def _columns(kind: type) -> list[tuple[str, str]]:
    """Name and type of the fields that hold one value."""
    columns = [(one.name, str(one.type)) for one in fields(kind)]
    return [column for column in columns if not column[1].startswith("tuple")]


def _plain(part: Any) -> dict[str, Any]:
    values = ((name, getattr(part, name)) for name, _ in _columns(type(part)))
    return {
        name: value.to_dict() if isinstance(value, Histogram) else value for name, value in values
    }


_READERS: dict[str, Callable[[Any], Any]] = {
    "Histogram": Histogram.from_dict,
    "int": int,
    "str": str,
}


def _read(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Older reports lack the fields in `_LATER`."""
    return {
        name: _READERS[type_name](data[name])
        for name, type_name in _columns(kind)
        if name in data or name not in _LATER
    }
