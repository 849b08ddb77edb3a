"""From a workload and unit costs to what a write of that size takes. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.config.rules import LARGEST_REQUEST
from spark_kafka_sink.exactly_once.task_transaction import partitions_to_name

if TYPE_CHECKING:
    from tools.scale.costs import Costs
    from tools.scale.workload import Workload

_METADATA_MAX_AGE_S: Final = 300
_COORDINATOR_APPENDS: Final = 3
"""Of a transaction, beside one for each request that brings it to new partitions: its producer id,
the decision of its end, and that it has ended."""
_BATCH_HEADER: Final = 61
_BATCH_SIZE: Final = 1 << 20
_PYTHON_BYTES: Final = 150_000_000
"""A Python process with this package, Arrow and PySpark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Of one write; rates in a second, sizes in bytes. What only exactly-once has is 0 without."""

    task_partitions: float
    """Partitions that a task writes to."""
    batch_records: float
    batch_bytes: float
    """With its header."""
    request_bytes: float
    requests_per_broker: float
    """A second."""
    connections_per_broker: float
    """At once, and in all, as workers keep theirs."""
    producer_states_per_broker: float
    """That a broker remembers when the write is done, its replicas included."""
    producer_state_bytes: float
    """Of one broker's heap."""
    metadata_bytes: float
    """A second, of all brokers together, once the write has begun."""
    driver_bytes: float
    """Commit messages that Spark's driver holds before the commit."""
    commit_memory: float
    """Of the Python process that commits."""
    commit_seconds: float
    """Its time: messages added up, transactions described twice, decided and ended."""
    describe_seconds: float
    """Of it the second look at the transactions, which must end within 5 s."""
    decision_bytes: float
    decision_seconds: float
    """Until the decision is encoded, within the driver's transaction of 15 s."""
    markers_per_broker: float
    """That end the transactions in their partitions."""
    marker_seconds: float
    """Until the last of them is written, and read_committed readers see all rows."""
    coordinator_appends: float
    """A second, to the transaction state logs of all brokers."""


def estimate(workload: Workload, costs: Costs) -> Estimate:
    """What the write takes."""
    size = workload
    written = size.task_partitions, size.worker_connections
    batches = size.task_partitions * max(1.0, _payload(size) / size.task_partitions / _BATCH_SIZE)
    # A request has one batch of a partition at most.
    room = min(LARGEST_REQUEST, _BATCH_SIZE * size.task_partitions / size.task_brokers)
    requests = max(size.task_brokers, _payload(size) / room)
    states = (
        size.task_partitions * size.tasks
        if size.exactly_once
        else size.worker_partitions * size.slots
    )
    states_per_broker = states * size.replicas / size.brokers
    driver_bytes = size.tasks * costs.message_bytes.at(*written)
    metadata = costs.metadata_bytes.at(size.partitions, size.brokers)
    ending = _ending(size, costs) if size.exactly_once else _Ending()
    if size.exactly_once:
        driver_bytes += size.tasks * costs.transaction_bytes
    return Estimate(
        task_partitions=size.task_partitions,
        batch_records=size.rows / batches,
        batch_bytes=_payload(size) / batches + _BATCH_HEADER,
        request_bytes=_payload(size) / requests,
        requests_per_broker=size.tasks_per_second * requests / size.brokers,
        connections_per_broker=size.slots * size.worker_connections / size.brokers,
        producer_states_per_broker=states_per_broker,
        producer_state_bytes=states_per_broker * costs.producer_state_bytes,
        metadata_bytes=size.slots * metadata / _METADATA_MAX_AGE_S,
        driver_bytes=driver_bytes,
        commit_memory=driver_bytes + ending.describe_bytes + _PYTHON_BYTES,
        commit_seconds=size.tasks * costs.merge_seconds.at(*written) + ending.seconds,
        describe_seconds=ending.describe_seconds,
        decision_bytes=ending.decision_bytes,
        decision_seconds=ending.decision_seconds,
        markers_per_broker=ending.markers,
        marker_seconds=ending.marker_seconds,
        coordinator_appends=ending.appends,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """What the transactions of the tasks take when they end."""

    seconds: float = 0.0
    """Of the driver, all together."""
    describe_seconds: float = 0.0
    describe_bytes: float = 0.0
    """Of all descriptions, which the driver holds at once."""
    decision_bytes: float = 0.0
    decision_seconds: float = 0.0
    markers: float = 0.0
    marker_seconds: float = 0.0
    appends: float = 0.0


def _ending(size: Workload, costs: Costs) -> _Ending:
    named = min(size.task_partitions, partitions_to_name(size.tasks))
    describe = size.tasks * costs.describe_seconds.at(size.task_partitions, 0)
    decide = size.tasks * costs.decision_seconds.at(named, 0)
    markers = size.tasks * size.task_partitions / size.brokers
    return _Ending(
        seconds=2 * describe + decide + size.tasks * (costs.result_seconds + costs.end_seconds),
        describe_seconds=describe,
        describe_bytes=size.tasks * costs.describe_bytes.at(size.task_partitions, 0),
        decision_bytes=size.tasks * costs.decision_bytes.at(named, 0),
        decision_seconds=decide,
        markers=markers,
        marker_seconds=markers * costs.marker_seconds,
        appends=size.tasks_per_second * (size.task_brokers + _COORDINATOR_APPENDS),
    )


def _payload(size: Workload) -> float:
    """Bytes that a task sends."""
    return size.rows * size.row_bytes
