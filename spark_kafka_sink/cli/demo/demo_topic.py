"""Create, watch and read the demo's topic with librdkafka."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from spark_kafka_sink.common.errors import BrokerUnavailableError
from spark_kafka_sink.common.text import plural

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from spark_kafka_sink.cli.demo.flights import Row


_TIMEOUT_S = 10.0
_STALLED_S = 30.0
"""Seconds without a record after which the consumer is considered stalled."""
_BATCH = 10_000


@dataclass(slots=True)
class Received:
    """The received records: the documents of each key, in order, and their partitions."""

    fields: tuple[str, ...]
    rows: defaultdict[str | None, list[Row]] = field(default_factory=lambda: defaultdict(list))
    partitions: defaultdict[str | None, set[int]] = field(default_factory=lambda: defaultdict(set))
    count: int = 0
    unexpected: int = 0
    """Number of records that are not JSON objects with exactly these fields."""

    def add(self, message: Message) -> None:
        """Add one record."""
        self.count += 1
        key = message.key()
        name = None if key is None else _as_bytes(key).decode()
        document = _parse_document(message)
        if document is None or tuple(document) != self.fields:
            self.unexpected += 1
            return
        self.rows[name].append(tuple(document.values()))
        self.partitions[name].add(int(message.partition() or 0))


def _parse_document(message: Message) -> dict[str, object] | None:
    try:
        document = json.loads(_as_bytes(message.value()))
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _as_bytes(data: str | bytes | None) -> bytes:
    return data.encode() if isinstance(data, str) else data or b""


class DemoTopic:
    """Context manager for a topic that is created, watched and read with librdkafka."""

    def __init__(
        self, bootstrap_servers: str, name: str, security: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._servers = bootstrap_servers
        self._security = dict(security or {})
        self._partitions: list[int] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "kafkaprod-demo",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "check.crcs": True,
                "log_level": 0,
                **self._security,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def create(self, partitions: int) -> int:
        """Create the topic unless it exists. Return its number of partitions.

        Raises:
            BrokerUnavailableError: no broker responds, or the broker rejects the request.
        """
        admin = AdminClient({"bootstrap.servers": self._servers, "log_level": 0, **self._security})
        try:
            new = NewTopic(self.name, num_partitions=partitions, replication_factor=1)
            created = admin.create_topics([new], request_timeout=_TIMEOUT_S)
            _wait_unless_exists(created[self.name].result)
            self._partitions = self._find_partitions()
        except KafkaException as error:
            raise BrokerUnavailableError(
                f"the topic cannot be created: {error.args[0].str()}",
                topic=self.name,
                broker=self._servers,
                hint="Check --bootstrap-servers and the security options.",
            ) from error
        return len(self._partitions)

    def sizes(self) -> dict[int, int]:
        """Return the number of records in each partition, from its low and high watermarks."""
        sizes = {}
        for number in self._partitions:
            topic_partition = TopicPartition(self.name, number)
            low, high = self._consumer.get_watermark_offsets(topic_partition, timeout=_TIMEOUT_S)
            sizes[number] = int(high) - int(low)
        return sizes

    def count(self) -> int:
        """Return the number of records in the topic."""
        return sum(self.sizes().values())

    def read(self, fields: tuple[str, ...], on_progress: Callable[[int], None]) -> Received:
        """Read all records between the partitions' watermarks. librdkafka checks the CRCs.

        Raises:
            BrokerUnavailableError: reading fails, or the brokers stop responding.
        """
        expected = self.count()
        received = Received(fields)
        self._consumer.assign([TopicPartition(self.name, n, 0) for n in self._partitions])
        last = time.monotonic()
        while received.count < expected:
            for message in self._consumer.consume(_BATCH, timeout=0.2):
                if message.error() is not None:
                    raise self._read_back_error(str(message.error()))
                received.add(message)
                last = time.monotonic()
            on_progress(received.count)
            if time.monotonic() - last > _STALLED_S:
                raise self._read_back_error(
                    f"{received.count:,} of {plural(expected, 'record')} read, then the brokers "
                    "stopped responding"
                )
        return received

    def _find_partitions(self) -> list[int]:
        """Wait until all partitions have a leader, and return their numbers."""
        deadline = time.monotonic() + _TIMEOUT_S
        while True:
            topic = self._consumer.list_topics(self.name, timeout=_TIMEOUT_S).topics[self.name]
            led = [
                number for number, partition in topic.partitions.items() if partition.leader >= 0
            ]
            if led and len(led) == len(topic.partitions):
                return sorted(led)
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            time.sleep(0.1)

    def _read_back_error(self, reason: str) -> BrokerUnavailableError:
        return BrokerUnavailableError(
            f"the records cannot be read back: {reason}", topic=self.name, broker=self._servers
        )


def _wait_unless_exists(wait: Callable[[], object]) -> None:
    try:
        wait()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
