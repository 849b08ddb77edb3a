"""The real Kafka of a benchmark, and new topics whose records are counted after each run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from tools.support.admin import Admin
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import UNCOMMITTED, ranges

PARTITIONS = 8


class MeasuredKafka(KafkaCluster):
    """A single node with a heap of 1 GiB, which deletes the files of deleted topics immediately.

    Index files are small: for 1,000 new partitions with the default size of 10 MiB, the first
    access to these files takes longer than the write itself (system time, on Linux 6.18).
    """

    def __init__(self, config: Mapping[str, str] | None = None) -> None:
        own = {
            "log.segment.delete.delay.ms": "500",
            "auto.create.topics.enable": "false",
            "log.index.size.max.bytes": "262144",
        }
        super().__init__(config={**own, **(config or {})}, heap_mib=1024, java_options=())


class Workbench:
    """Shared resources of the parts: a real Kafka, started on demand, and a log."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.log = log
        self._running = ExitStack()
        self._bootstrap_servers = ""

    @property
    def bootstrap_servers(self) -> str:
        """The address of Kafka, which is restarted if it has exited."""
        if self._bootstrap_servers and not Admin(self._bootstrap_servers).broker_ids():
            self.log("Kafka no longer responds")
            self.stop()
        if not self._bootstrap_servers:
            self.log("starting Kafka")
            self._bootstrap_servers = self._running.enter_context(MeasuredKafka()).bootstrap_servers
        return self._bootstrap_servers

    def stop(self) -> None:
        """Stop Kafka. The next part that needs Kafka starts a new one."""
        self._bootstrap_servers = ""
        self._running.close()


@dataclass(frozen=True, slots=True)
class Plan:
    """Number of records per run, and number of rounds."""

    records: int
    rounds: int

    def quick(self) -> Plan:
        """Return a plan with a tenth of the records and one round."""
        return Plan(self.records // 10, 1)


class ResponseError(RuntimeError):
    """A topic could not be created or deleted, or contains a wrong number of records."""


@contextmanager
def new_topics(
    bootstrap_servers: str,
    expected: int,
    *,
    count: int = 1,
    partitions: int = PARTITIONS,
    markers: int = 0,
) -> Iterator[list[str]]:
    """Create topics, numbered from 0. On exit, check for `expected` records in total, and delete.

    With transactions, up to `markers` transaction markers are also counted.

    Raises:
        ResponseError: they contain a different number of records, or a request failed.
    """
    prefix = f"bench-{uuid.uuid4().hex[:12]}"
    names = [f"{prefix}-{number}" for number in range(count)]
    admin = Admin(bootstrap_servers)
    try:
        admin.create_topics(*(NewTopic(name, partitions, 1) for name in names))
        try:
            yield names
            written = sum(_records(bootstrap_servers, name) for name in names)
        finally:
            admin.delete_topics(*names)
    except KafkaException as error:
        raise ResponseError(f"{names[0]}: {error}") from error
    if not expected <= written <= expected + markers:
        raise ResponseError(f"{prefix} contains {written:,} records, expected {expected:,}")


def _records(bootstrap_servers: str, topic: str) -> int:
    # With read_committed, the end offset would exclude transactions without a marker.
    return sum(end - start for start, end in ranges(bootstrap_servers, topic, UNCOMMITTED).values())
