"""Pure functions that estimate the figures of a write, and how much of each limit it uses."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spark_kafka_sink.config.rules import LARGEST_REQUEST


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Measured costs of one task of a workload, in bytes and in CPU seconds of the driver."""

    message_bytes: float
    """Bytes of the commit message, as Spark's driver stores it."""
    transaction_bytes: float
    """Additional bytes of the message with exactly-once."""
    merge_seconds: float
    """Seconds to unpickle and merge the message."""
    describe_bytes: float
    """Bytes of a coordinator's description of the task's transaction."""
    describe_seconds: float
    """Seconds to decode this description."""
    decision_bytes: float
    """Bytes of the transaction in the decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The tasks of a write to one topic, whose rows are distributed over the partitions by key."""

    tasks: int
    slots: int
    """Concurrent tasks, each in a Python worker that is reused for the next task."""
    partitions: int
    brokers: int
    rows: int
    """Rows per task."""
    row_bytes: int = 200
    """Uncompressed bytes per record in Kafka."""
    task_seconds: float = 2.0
    """Duration of a task in seconds, for the rates."""
    replicas: int = 3
    exactly_once: bool = False

    @property
    def guarantee(self) -> str:
        """Value of `deliveryGuarantee`."""
        return "exactly-once" if self.exactly_once else "at-least-once"

    @property
    def task_partitions(self) -> float:
        """Number of partitions that a task writes to."""
        return touched(self.rows, self.partitions)

    @property
    def worker_partitions(self) -> float:
        """Number of partitions that a worker writes to in all of its tasks."""
        return touched(self.rows * max(1, self.tasks // self.slots), self.partitions)

    @property
    def task_brokers(self) -> float:
        """Number of brokers that lead a task's partitions."""
        return touched(round(self.task_partitions), self.brokers)

    @property
    def worker_connections(self) -> float:
        """Number of connections per worker: one to each leader and one to a bootstrap server."""
        return touched(round(self.worker_partitions), self.brokers) + 1

    @property
    def tasks_per_second(self) -> float:
        """Tasks per second in total."""
        return self.slots / self.task_seconds


def touched(rows: int, places: int) -> float:
    """Return the mean number of equally likely places that receive at least one row."""
    return places * (1 - (1 - 1 / places) ** rows)


_LARGE = Workload(tasks=10_000, slots=1_000, partitions=1_000, brokers=100, rows=100_000)
WORKLOADS: Final = (
    Workload(tasks=100, slots=16, partitions=8, brokers=3, rows=1_000_000),
    Workload(tasks=1_000, slots=100, partitions=100, brokers=10, rows=100_000, task_seconds=1.0),
    _LARGE,
    replace(_LARGE, rows=1_000, task_seconds=0.5),
)
"""The workloads in docs/scale.md, each of which is estimated with and without exactly-once."""

_COORDINATOR_APPENDS: Final = 3
"""Appends per transaction, in addition to one append per request that adds partitions.

These are the producer ID, the decision to end the transaction, and its completion.
"""
_BATCH_BYTES: Final = 1 << 20
_PYTHON_BYTES: Final = 150_000_000
"""Memory of a Python process with this package, Arrow and PySpark."""
_END_SECONDS: Final = 0.000_17
"""Seconds per transaction to end many transactions; see `make bench`, docs/benchmarks.md."""
_STATE_BYTES: Final = 300
"""Assumed heap bytes of a ProducerStateEntry with one or two batches, and its map entry."""
_MARKER_SECONDS: Final = 0.000_05
"""Assumed seconds that a leader needs to write a transaction marker to one partition."""

REQUESTS: Final = "Produce requests per second, per broker"
CONNECTIONS: Final = "connections per broker"
STATES: Final = "producer states per broker"
STATE_BYTES: Final = "bytes of producer state per broker"
MESSAGES: Final = "bytes of commit messages"
MEMORY: Final = "memory of the Python process that commits"
COMMIT: Final = "CPU seconds of the commit"
DESCRIBE: Final = "seconds of the second check of the transactions"
DECISION: Final = "bytes of the decision"
MARKERS: Final = "transaction markers per broker"
MARKER_SECONDS: Final = "seconds until read_committed readers see the last row"
APPENDS: Final = "appends per second to transaction logs"


def estimate(size: Workload, costs: Costs) -> dict[str, float]:
    """Return the figures of a write by name."""
    payload = size.rows * size.row_bytes
    batches = size.task_partitions * max(1.0, payload / size.task_partitions / _BATCH_BYTES)
    # A request has at most one batch per partition.
    room = min(LARGEST_REQUEST, _BATCH_BYTES * size.task_partitions / size.task_brokers)
    requests = max(size.task_brokers, payload / room)
    states = size.worker_partitions * size.slots * size.replicas / size.brokers
    messages = size.tasks * costs.message_bytes
    found = {
        "records per batch": size.rows / batches,
        "bytes per Produce request": payload / requests,
        REQUESTS: size.tasks_per_second * requests / size.brokers,
        # Workers do not close their connections.
        CONNECTIONS: size.slots * size.worker_connections / size.brokers,
        STATES: states,
        STATE_BYTES: states * _STATE_BYTES,
        MESSAGES: messages,
        MEMORY: messages + _PYTHON_BYTES,
        COMMIT: size.tasks * costs.merge_seconds,
    }
    return found | _transactions(found, size, costs) if size.exactly_once else found


def _transactions(found: dict[str, float], size: Workload, costs: Costs) -> dict[str, float]:
    """Return the figures that differ with exactly-once, where each task has a transaction."""
    markers = size.tasks * size.task_partitions / size.brokers
    messages = size.tasks * costs.transaction_bytes
    describe = size.tasks * costs.describe_seconds
    # All descriptions are in the driver's memory at the same time.
    described = size.tasks * costs.describe_bytes
    return {
        STATES: markers * size.replicas,
        STATE_BYTES: markers * size.replicas * _STATE_BYTES,
        MESSAGES: found[MESSAGES] + messages,
        MEMORY: found[MEMORY] + messages + described,
        COMMIT: found[COMMIT] + 2 * describe + size.tasks * _END_SECONDS,
        DESCRIBE: describe,
        DECISION: size.tasks * costs.decision_bytes,
        MARKERS: markers,
        MARKER_SECONDS: markers * _MARKER_SECONDS,
        APPENDS: size.tasks_per_second * (size.task_brokers + _COORDINATOR_APPENDS),
    }


_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of a figure of `estimate`, with its origin and the settings that change it."""

    figure: str
    most: float
    source: str
    setting: str

    def share(self, estimated: dict[str, float]) -> float:
        """Return the used fraction of the limit. Above 1, the limit is exceeded."""
        return estimated.get(self.figure, 0.0) / self.most


LIMITS: Final = (
    Limit(
        MESSAGES,
        1024 * _MIB,
        "`spark.driver.maxResultSize`, 1 GiB",
        "`spark.driver.maxResultSize` and `spark.driver.memory`; fewer tasks (`coalesce`)",
    ),
    Limit(
        MEMORY,
        384 * _MIB,
        "`spark.driver.memoryOverhead`, 384 MiB",
        "`spark.driver.memoryOverhead`; fewer tasks",
    ),
    Limit(
        DESCRIBE,
        5.0,
        "5 s (limit set by the sink)",
        "fewer tasks; `atomicBatch=true` (one transaction)",
    ),
    Limit(
        STATE_BYTES,
        0.1 * 6 * 1024 * _MIB,
        "a tenth of a heap of 6 GiB, assumed",
        "brokers: `producer.id.expiration.ms` (a day); `atomicBatch=true`; fewer tasks; "
        "at-least-once (one producer for each worker)",
    ),
    Limit(
        MARKER_SECONDS,
        60.0,
        "60 s, assumed",
        "`atomicBatch=true`: one marker for each partition; fewer tasks",
    ),
    Limit(
        APPENDS,
        100_000.0,
        "100,000 per second over all brokers, assumed",
        "`atomicBatch=true`; fewer tasks; fewer executor cores at once",
    ),
    Limit(
        REQUESTS,
        10_000.0,
        "10,000 per second per broker, assumed",
        "fewer and larger tasks; `repartition_by_kafka_partition` (few partitions per task); "
        "`kafka.linger.ms`",
    ),
    Limit(
        CONNECTIONS,
        100_000.0,
        "100,000 open files, as Kafka's documentation recommends",
        "brokers: `max.connections`, which has no limit by default, and the limit of open "
        "files; fewer executor cores at once",
    ),
)


def tightest(estimated: dict[str, float]) -> Limit:
    """Return the limit with the highest share."""
    return max(LIMITS, key=lambda limit: limit.share(estimated))
