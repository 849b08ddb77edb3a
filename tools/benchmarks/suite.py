"""All parts of the benchmarks in order, and the number of records and rounds of each part."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from tools.benchmarks import encryption, exactly_once, formats
from tools.benchmarks.core import codec, encoder, latency, rates
from tools.benchmarks.core.codec import CodecPlan
from tools.benchmarks.core.latency import LatencyPlan
from tools.benchmarks.core.rates import CorePlan, SizesPlan
from tools.benchmarks.encryption import EncryptionPlan
from tools.benchmarks.exactly_once import ExactlyOncePlan
from tools.benchmarks.formats import FormatsPlan
from tools.benchmarks.spark import first_write, sweeps
from tools.benchmarks.spark import rates as spark_rates
from tools.benchmarks.spark.first_write import FirstWritePlan
from tools.benchmarks.spark.rates import SparkPlan
from tools.benchmarks.spark.sweeps import PartitionsPlan
from tools.benchmarks.topics import measured_kafka
from tools.support.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.results import Table, Target

    Log = Callable[[str], None]


class Figures(Protocol):
    """The measurements of a part."""

    def tables(self) -> Sequence[Table]:
        """Return the tables to show."""

    def targets(self) -> Sequence[Target]:
        """Return the targets, for which the medians are compared."""

    def to_dict(self) -> object:
        """Return all samples as a JSON object."""


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
            kafka = self._running.enter_context(measured_kafka())
            self._bootstrap_servers = kafka.bootstrap_servers
        return self._bootstrap_servers

    def stop(self) -> None:
        """Stop Kafka. The next part that needs Kafka starts a new one."""
        self._bootstrap_servers = ""
        self._running.close()


@dataclass(frozen=True, slots=True)
class Part:
    """The name of a part, and the function that measures it."""

    name: str
    measure: Callable[[Workbench], Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """The records and rounds of each part."""

    encoder_rounds: int
    formats: FormatsPlan
    core: CorePlan
    kinds: CorePlan
    sizes: SizesPlan
    codec: CodecPlan
    latency: LatencyPlan
    spark: SparkPlan
    first_write: FirstWritePlan
    partitions: PartitionsPlan
    arrow_batches: SparkPlan
    topics: SparkPlan
    encryption: EncryptionPlan
    exactly_once: ExactlyOncePlan


FULL = Amounts(
    encoder_rounds=60,
    formats=FormatsPlan(rounds=40, writes=SparkPlan(records=2_000_000, rounds=4)),
    core=CorePlan(records=4_000_000, warmup=500_000, rounds=3),
    kinds=CorePlan(records=2_000_000, warmup=300_000, rounds=3),
    sizes=SizesPlan(records=3_000_000, value_bytes=400_000_000, rounds=3),
    codec=CodecPlan(cost_rounds=10, places=CorePlan(records=1_000_000, warmup=200_000, rounds=2)),
    latency=LatencyPlan(seconds=6, rounds=2),
    spark=SparkPlan(records=4_000_000, rounds=4),
    first_write=FirstWritePlan(records=(20_000, 1_000_000), sessions=2),
    partitions=PartitionsPlan(records=1_000_000, jvm_records=200_000, rounds=3),
    arrow_batches=SparkPlan(records=400_000, rounds=3),
    topics=SparkPlan(records=1_000_000, rounds=3),
    encryption=EncryptionPlan(
        core=CorePlan(records=4_000_000, warmup=500_000, rounds=2),
        spark=SparkPlan(records=4_000_000, rounds=2),
    ),
    exactly_once=ExactlyOncePlan(
        records=4_000_000,
        rounds=4,
        stream_rounds=2,
        micro_batches=10,
        transactions=1_000,
        endings=3,
    ),
)
QUICK = Amounts(
    encoder_rounds=15,
    formats=FormatsPlan(rounds=10, writes=SparkPlan(records=50_000, rounds=1)),
    core=CorePlan(records=1_000_000, warmup=300_000, rounds=1),
    kinds=CorePlan(records=300_000, warmup=100_000, rounds=1),
    sizes=SizesPlan(records=300_000, value_bytes=50_000_000, rounds=1),
    codec=CodecPlan(cost_rounds=2, places=CorePlan(records=300_000, warmup=100_000, rounds=1)),
    latency=LatencyPlan(seconds=3, rounds=1),
    spark=SparkPlan(records=500_000, rounds=1),
    first_write=FirstWritePlan(records=(20_000,), sessions=1),
    partitions=PartitionsPlan(records=100_000, jvm_records=20_000, rounds=1),
    arrow_batches=SparkPlan(records=100_000, rounds=1),
    topics=SparkPlan(records=100_000, rounds=1),
    encryption=EncryptionPlan(
        core=CorePlan(records=500_000, warmup=100_000, rounds=1),
        spark=SparkPlan(records=200_000, rounds=1),
    ),
    exactly_once=ExactlyOncePlan(
        records=400_000, rounds=2, stream_rounds=1, micro_batches=10, transactions=200, endings=1
    ),
)


_P = TypeVar("_P")


def suite(amounts: Amounts) -> tuple[Part, ...]:
    """Return the parts with the given numbers of records and rounds."""

    def encrypted(bench: Workbench) -> Figures:
        bench.stop()  # This part starts its own Kafka with two listeners.
        return encryption.measure(amounts.encryption, bench.log)

    return (
        Part("encoder", lambda bench: encoder.measure(amounts.encoder_rounds, bench.log)),
        _on_kafka("formats", formats.measure, amounts.formats),
        _on_kafka("core", rates.measure_core, amounts.core),
        _on_kafka("headers", rates.measure_headers, amounts.kinds),
        _on_kafka("sizes", rates.measure_sizes, amounts.sizes),
        _on_kafka("codec", codec.measure, amounts.codec),
        _on_kafka("latency", latency.measure, amounts.latency),
        _on_kafka("spark", spark_rates.measure, amounts.spark),
        _on_kafka("first-write", first_write.measure, amounts.first_write),
        _on_kafka("partitions", sweeps.measure_partitions, amounts.partitions),
        _on_kafka("arrow-batches", sweeps.measure_arrow_batches, amounts.arrow_batches),
        _on_kafka("topics", sweeps.measure_topics, amounts.topics),
        _on_kafka("exactly-once", exactly_once.measure, amounts.exactly_once),
        Part("encryption", encrypted),
    )


def _on_kafka(name: str, measure: Callable[[str, _P, Log], Figures], plan: _P) -> Part:
    return Part(name, lambda bench: measure(bench.bootstrap_servers, plan, bench.log))
