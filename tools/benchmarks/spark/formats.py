"""Whole Spark writes with `value.format`, compared with `to_json` and `to_avro`.

The rows come from Parquet. Each function of Spark is measured with this sink and with Spark's own
sink, tuned as in the other comparisons. Avro is also measured with a schema registry in memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from tools.benchmarks.payload import FLAT, NESTED, orders_file
from tools.benchmarks.results import at_most, find
from tools.benchmarks.spark.contestants import SINK, TUNED_JVM
from tools.benchmarks.spark.rates import ABOUT, against_jvm, measure_all, spark_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.results import Series, Table, Target
    from tools.benchmarks.spark.contestants import SparkContestant
    from tools.benchmarks.spark.rates import SparkPlan

RATES = {FLAT: 1.8, NESTED: 1.3}
"""Minimum ratio of the rate to the tuned JVM sink's rate."""
CPU_SHARE = 0.55
"""Maximum ratio of the CPU per record to the tuned JVM sink's."""
REGISTRY_SHARE = 1.05
"""Maximum ratio of CPU with a registry to CPU without a registry; 5% is run-to-run noise."""
_FORMATS = ("json", "avro")
_CONFLUENT = "avro-confluent"
_REGISTRY = {"schema.registry.url": "mock://benchmark"}


def ours(format_: str, kind: str) -> str:
    """Return the name of the contestant with `value.format`."""
    return f"value.format={format_}, {kind}"


def converted(format_: str, kind: str, sink: SparkContestant = TUNED_JVM) -> str:
    """Return the name of the contestant with Spark's function and a sink."""
    return f"to_{format_}, {kind}, {sink.name}"


def contestants() -> list[SparkContestant]:
    """Return all contestants in the order of the table."""
    return [each for kind in (FLAT, NESTED) for format_ in _FORMATS for each in _of(format_, kind)]


def _of(format_: str, kind: str) -> list[SparkContestant]:
    sink = replace(SINK, codecs=("none",), source=partial(orders_file, kind))
    formats = (
        {format_: {}, _CONFLUENT: _REGISTRY} if (format_, kind) == ("avro", FLAT) else {format_: {}}
    )
    return [
        *(
            replace(sink, name=ours(each, kind), options={"value.format": each, **registry})
            for each, registry in formats.items()
        ),
        *(
            replace(
                each,
                name=converted(format_, kind, each),
                codecs=sink.codecs,
                source=sink.source,
                select=(f"to_{format_}(struct(*)) value",),
            )
            for each in (SINK, TUNED_JVM)
        ),
    ]


@dataclass(frozen=True, slots=True)
class FormatWrites:
    """The series of each contestant."""

    series: Sequence[Series]

    def table(self) -> Table:
        """Return one table. Ratios are relative to the tuned JVM sink with the same rows."""
        title = "Formats: orders of ten fields from Parquet, local[1], warm session"
        return spark_table(self.series, title, ABOUT, _reference)

    def targets(self) -> list[Target]:
        """Return the targets relative to the tuned JVM sink, and the cost of a registry."""
        targets: list[Target] = []
        for kind, rate in RATES.items():
            for format_ in _FORMATS:
                found = find(self.series, ours(format_, kind))
                reference = find(self.series, converted(format_, kind))
                what = f"Spark, {format_}, {kind}"
                faster, cheaper = against_jvm(
                    what, found, reference, rate=rate, cpu_share=CPU_SHARE
                )
                targets += (faster, cheaper) if kind == FLAT else (faster,)
        plain = find(self.series, ours("avro", FLAT))
        registered = find(self.series, ours(_CONFLUENT, FLAT))
        share = registered.cpu_us / plain.cpu_us if plain and registered else None
        what = "Spark, Avro with a registry: CPU relative to Avro without"
        return [*targets, at_most(what, REGISTRY_SHARE, "x", share)]


def _reference(one: Series) -> str:
    """Return the name of the tuned JVM sink's series with the same format and rows."""
    format_ = next(each for each in _FORMATS if each in one.contestant)
    return converted(format_, NESTED if NESTED in one.contestant else FLAT)


def measure_writes(
    bootstrap_servers: str, plan: SparkPlan, log: Callable[[str], None]
) -> FormatWrites:
    """Run all rounds of all contestants."""
    return FormatWrites(measure_all(contestants(), bootstrap_servers, plan, log))
