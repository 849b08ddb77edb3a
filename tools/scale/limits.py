"""What an estimate is compared with: defaults of Spark and Kafka, and what a broker can bear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tools.scale.estimate import Estimate

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A figure of `Estimate` that must not exceed `most`, or come below `least`."""

    field: str
    what: str
    source: str
    """Whose limit it is."""
    setting: str
    """What moves it."""
    most: float

    def share(self, estimate: Estimate) -> float:
        """How much of the limit is used; above 1 it breaks."""
        used: float = getattr(estimate, self.field)
        return used / self.most


LIMITS: Final = (
    Limit(
        field="driver_bytes",
        what="commit messages",
        source="`spark.driver.maxResultSize`, 1 GiB",
        setting="`spark.driver.maxResultSize` and `spark.driver.memory`; fewer tasks (`coalesce`)",
        most=1024 * _MIB,
    ),
    Limit(
        field="commit_memory",
        what="memory of the Python process that commits",
        source="`spark.driver.memoryOverhead`, 384 MiB",
        setting="`spark.driver.memoryOverhead`; fewer tasks",
        most=384 * _MIB,
    ),
    Limit(
        field="describe_seconds",
        what="second look at the transactions",
        source="5 s, this sink's",
        setting="fewer tasks; `atomicBatch=true`, which has one transaction",
        most=5.0,
    ),
    Limit(
        field="decision_seconds",
        what="encoding the decision",
        source="15 s, this sink's transaction of its own",
        setting="fewer tasks; `atomicBatch=true`",
        most=15.0,
    ),
    Limit(
        field="producer_state_bytes",
        what="producer states in a broker's heap",
        source="a tenth of a heap of 6 GiB, assumed",
        setting="brokers: `producer.id.expiration.ms` (a day); `atomicBatch=true`; fewer tasks; "
        "at-least-once has one producer for each worker",
        most=0.1 * 6 * 1024 * _MIB,
    ),
    Limit(
        field="marker_seconds",
        what="time until read_committed readers see the last row",
        source="60 s, assumed",
        setting="`atomicBatch=true`: one marker for each partition; fewer tasks",
        most=60.0,
    ),
    Limit(
        field="coordinator_appends",
        what="appends to the transaction state logs",
        source="100,000 a second of all brokers, assumed",
        setting="`atomicBatch=true`; fewer tasks; fewer executor cores at once",
        most=100_000.0,
    ),
    Limit(
        field="requests_per_broker",
        what="Produce requests",
        source="10,000 a second of one broker, assumed",
        setting="fewer and larger tasks; `repartition_by_kafka_partition`, by which a task has "
        "few partitions; `kafka.linger.ms`",
        most=10_000.0,
    ),
    Limit(
        field="connections_per_broker",
        what="connections",
        source="100,000 open files, as Kafka's documentation asks for",
        setting="brokers: `max.connections`, which has no limit by default, and the limit of open "
        "files; fewer executor cores at once",
        most=100_000.0,
    ),
)


def first(estimate: Estimate) -> Limit:
    """The limit that is nearest, or exceeded most."""
    return max(LIMITS, key=lambda limit: limit.share(estimate))
