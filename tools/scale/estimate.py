"""Pure functions that estimate the costs of a write, and the used share of limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from spark_kafka_sink.config.rules import LARGEST_REQUEST
from spark_kafka_sink.exactly_once.task_transaction import partitions_to_list


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """A cost that depends linearly on a task's partitions and brokers."""

    fixed: float
    partition: float
    """Cost per partition that the task writes to."""
    broker: float
    """Cost per broker that the task connects to."""

    def at(self, partitions: float, brokers: float) -> float:
        """Return the cost of one task."""
        return self.fixed + self.partition * partitions + self.broker * brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Unit costs that `tools.scale.measure` has measured, except the assumed costs of brokers."""

    message_bytes: Linear
    """Bytes of a task's commit message, as Spark's driver stores it."""
    transaction_bytes: float
    """Additional bytes of the message with exactly-once."""
    merge_seconds: Linear
    """Seconds to unpickle and merge a message."""
    result_seconds: float
    """Seconds to collect a task's partitions for the decision (with exactly-once)."""
    describe_seconds: Linear
    """Seconds to decode a coordinator's description of one transaction."""
    describe_bytes: Linear
    decision_bytes: Linear
    """Bytes of a transaction in the decision, and of each listed partition."""
    decision_seconds: Linear
    end_seconds: float = 0.000_17
    """Seconds per transaction to end many transactions; see `make bench`, docs/benchmarks.md."""
    metadata_bytes: Linear
    """Bytes of a Metadata response."""
    metadata_seconds: Linear
    producer_state_bytes: int = 300
    """Assumed heap bytes of a ProducerStateEntry with one or two batches, and its map entry."""
    marker_seconds: float = 0.000_05
    """Assumed seconds that a leader needs to write a transaction marker to one partition."""


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


_SIZES = (
    Workload(tasks=100, slots=16, partitions=8, brokers=3, rows=1_000_000, task_seconds=2.0),
    Workload(tasks=1_000, slots=100, partitions=100, brokers=10, rows=100_000, task_seconds=1.0),
    Workload(tasks=10_000, slots=1_000, partitions=1_000, brokers=100, rows=100_000),
    Workload(
        tasks=10_000, slots=1_000, partitions=1_000, brokers=100, rows=1_000, task_seconds=0.5
    ),
)
WORKLOADS = tuple(
    replace(size, exactly_once=exactly_once) for exactly_once in (False, True) for size in _SIZES
)
"""The workloads in docs/scale.md."""


_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure of `Estimate` that must not exceed `most`."""

    field: str
    what: str
    source: str
    """The origin of the limit."""
    setting: str
    """The setting that changes the figure or the limit."""
    most: float

    def share(self, estimate: Estimate) -> float:
        """Return the used fraction of the limit. Above 1, the limit is exceeded."""
        used: float = getattr(estimate, self.field)
        return used / self.most


LIMITS: Final = (
    Limit(
        "driver_bytes",
        "commit messages",
        "`spark.driver.maxResultSize`, 1 GiB",
        "`spark.driver.maxResultSize` and `spark.driver.memory`; fewer tasks (`coalesce`)",
        1024 * _MIB,
    ),
    Limit(
        "commit_memory",
        "memory of the Python process that commits",
        "`spark.driver.memoryOverhead`, 384 MiB",
        "`spark.driver.memoryOverhead`; fewer tasks",
        384 * _MIB,
    ),
    Limit(
        "describe_seconds",
        "second check of the transactions",
        "5 s (limit set by the sink)",
        "fewer tasks; `atomicBatch=true` (one transaction)",
        5.0,
    ),
    Limit(
        "decision_seconds",
        "encoding the decision",
        "15 s (timeout of the sink's own transaction)",
        "fewer tasks; `atomicBatch=true`",
        15.0,
    ),
    Limit(
        "producer_state_bytes",
        "producer states in a broker's heap",
        "a tenth of a heap of 6 GiB, assumed",
        "brokers: `producer.id.expiration.ms` (a day); `atomicBatch=true`; fewer tasks; "
        "at-least-once (one producer for each worker)",
        0.1 * 6 * 1024 * _MIB,
    ),
    Limit(
        "marker_seconds",
        "time until read_committed readers see the last row",
        "60 s, assumed",
        "`atomicBatch=true`: one marker for each partition; fewer tasks",
        60.0,
    ),
    Limit(
        "coordinator_appends",
        "appends to the transaction state logs",
        "100,000 per second over all brokers, assumed",
        "`atomicBatch=true`; fewer tasks; fewer executor cores at once",
        100_000.0,
    ),
    Limit(
        "requests_per_broker",
        "Produce requests",
        "10,000 per second per broker, assumed",
        "fewer and larger tasks; `repartition_by_kafka_partition` (few partitions per task); "
        "`kafka.linger.ms`",
        10_000.0,
    ),
    Limit(
        "connections_per_broker",
        "connections",
        "100,000 open files, as Kafka's documentation recommends",
        "brokers: `max.connections`, which has no limit by default, and the limit of open "
        "files; fewer executor cores at once",
        100_000.0,
    ),
)


def first(estimate: Estimate) -> Limit:
    """Return the limit with the highest share."""
    return max(LIMITS, key=lambda limit: limit.share(estimate))


_METADATA_MAX_AGE_S: Final = 300
_COORDINATOR_APPENDS: Final = 3
"""Appends per transaction, in addition to one append per request that adds partitions.

These are the producer ID, the decision to end the transaction, and its completion.
"""
_BATCH_HEADER: Final = 61
_BATCH_SIZE: Final = 1 << 20
_PYTHON_BYTES: Final = 150_000_000
"""Memory of a Python process with this package, Arrow and PySpark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The estimate of a write. Sizes are in bytes. Exactly-once costs are 0 for other writes."""

    task_partitions: float
    """Number of partitions that a task writes to."""
    batch_records: float
    batch_bytes: float
    """Bytes per batch, including its header."""
    request_bytes: float
    requests_per_broker: float
    """Produce requests per second."""
    connections_per_broker: float
    """Connections per broker; workers do not close their connections."""
    producer_states_per_broker: float
    """Producer states that a broker retains after the write, including those of followers."""
    producer_state_bytes: float
    """Bytes of producer states in a broker's heap."""
    metadata_bytes: float
    """Bytes of Metadata responses per second, in total for all brokers, during the write."""
    driver_bytes: float
    """Bytes of commit messages that Spark's driver stores before the commit."""
    commit_memory: float
    """Memory in bytes of the Python process that commits."""
    commit_seconds: float
    """CPU seconds to merge messages, describe the transactions twice, and decide and end them."""
    describe_seconds: float = 0.0
    """Seconds for the second check of the transactions, which must complete within 5 s."""
    decision_bytes: float = 0.0
    decision_seconds: float = 0.0
    """Seconds to encode the decision, which must fit into the driver's transaction of 15 s."""
    markers_per_broker: float = 0.0
    """Transaction markers that a broker writes."""
    marker_seconds: float = 0.0
    """Seconds until the last marker is written, so that read_committed readers see all rows."""
    coordinator_appends: float = 0.0
    """Appends per second to the transaction state logs of all brokers."""


def estimate(workload: Workload, costs: Costs) -> Estimate:
    """Return the estimate for a workload."""
    size = workload
    written = size.task_partitions, size.worker_connections
    payload = size.rows * size.row_bytes
    batches = size.task_partitions * max(1.0, payload / size.task_partitions / _BATCH_SIZE)
    # A request has at most one batch per partition.
    room = min(LARGEST_REQUEST, _BATCH_SIZE * size.task_partitions / size.task_brokers)
    requests = max(size.task_brokers, payload / room)
    states = (size.worker_partitions * size.slots) * size.replicas / size.brokers
    driver_bytes = size.tasks * costs.message_bytes.at(*written)
    metadata = costs.metadata_bytes.at(size.partitions, size.brokers)
    found = Estimate(
        task_partitions=size.task_partitions,
        batch_records=size.rows / batches,
        batch_bytes=payload / batches + _BATCH_HEADER,
        request_bytes=payload / requests,
        requests_per_broker=size.tasks_per_second * requests / size.brokers,
        connections_per_broker=size.slots * size.worker_connections / size.brokers,
        producer_states_per_broker=states,
        producer_state_bytes=states * costs.producer_state_bytes,
        metadata_bytes=size.slots * metadata / _METADATA_MAX_AGE_S,
        driver_bytes=driver_bytes,
        commit_memory=driver_bytes + _PYTHON_BYTES,
        commit_seconds=size.tasks * costs.merge_seconds.at(*written),
    )
    return _with_transactions(found, size, costs) if size.exactly_once else found


def _with_transactions(found: Estimate, size: Workload, costs: Costs) -> Estimate:
    """Return the estimate with the costs of the tasks' transactions."""
    named = min(size.task_partitions, partitions_to_list(size.tasks))
    describe = size.tasks * costs.describe_seconds.at(size.task_partitions, 0)
    decide = size.tasks * costs.decision_seconds.at(named, 0)
    # All descriptions are in the driver's memory at the same time.
    described = size.tasks * costs.describe_bytes.at(size.task_partitions, 0)
    ending = 2 * describe + decide + size.tasks * (costs.result_seconds + costs.end_seconds)
    markers = size.tasks * size.task_partitions / size.brokers
    message_bytes = size.tasks * costs.transaction_bytes
    return replace(
        found,
        producer_states_per_broker=markers * size.replicas,
        producer_state_bytes=markers * size.replicas * costs.producer_state_bytes,
        driver_bytes=found.driver_bytes + message_bytes,
        commit_memory=found.commit_memory + message_bytes + described,
        commit_seconds=found.commit_seconds + ending,
        describe_seconds=describe,
        decision_bytes=size.tasks * costs.decision_bytes.at(named, 0),
        decision_seconds=decide,
        markers_per_broker=markers,
        marker_seconds=markers * costs.marker_seconds,
        coordinator_appends=size.tasks_per_second * (size.task_brokers + _COORDINATOR_APPENDS),
    )
