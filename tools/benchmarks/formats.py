"""Benchmark the encoders of `value.format` alone, on one core, and whole Spark writes with them.

The encoders get batches of 10,000 orders (see `payload`). Times are the process's CPU time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.fields import RowFaults
from spark_kafka_sink.formats.plan import (
    FieldPlan,
    Framing,
    compile_encoder,
    derive_schema,
)
from tools.benchmarks.payload import FLAT, NESTED, NO_DOUBLES, NULLS, orders
from tools.benchmarks.processes import python
from tools.benchmarks.results import Table, Target, at_least
from tools.benchmarks.spark.formats import FormatWrites, measure_writes
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.benchmarks.spark.rates import SparkPlan

ROWS = 10_000
_BATCHES = 8
"""Number of different batches, which are encoded in turn."""
_WANTED = {
    (Format.AVRO, FLAT): 6.0,
    (Format.PROTOBUF, FLAT): 6.0,
    (Format.JSON, FLAT): 2.5,
    (Format.JSON, NO_DOUBLES): 4.0,
}
"""Target: millions of records per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatResult:
    """Records per second and bytes per record, for one format and kind of record."""

    format: str
    records: str
    size: float
    best: float
    median: float


@dataclass(frozen=True, slots=True)
class FormatFigures:
    """Results of all encoders and of the writes."""

    results: Sequence[FormatResult]
    writes: FormatWrites

    def tables(self) -> list[Table]:
        """Return a table for the encoders and a table for the writes."""
        rows = [
            (
                each.format,
                each.records,
                f"{each.size:.0f}",
                f"{each.median / 1e6:.1f}",
                f"{each.best / 1e6:.1f}",
            )
            for each in self.results
        ]
        title = "Formats: records of ten fields, encoders alone, one core, CPU time"
        columns = ("format", "records", "bytes", "M rec/s, median", "best")
        return [Table(title, columns, rows), self.writes.table()]

    def targets(self) -> list[Target]:
        """Return the targets of the encoders and of the writes."""
        found = {(Format(each.format), each.records): each for each in self.results}
        encoders = [
            at_least(
                f"{format_.value} encoder, {records}",
                wanted,
                " M rec/s",
                found[format_, records].median / 1e6,
                f"{found[format_, records].median / 1e6:.1f} M rec/s",
            )
            for (format_, records), wanted in _WANTED.items()
        ]
        return [*encoders, *self.writes.targets()]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON object."""
        return {
            "encoders": [asdict(each) for each in self.results],
            "writes": [each.to_dict() for each in self.writes.series],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatsPlan:
    """Number of rounds of the encoders, and the records and rounds of the writes."""

    rounds: int
    writes: SparkPlan


def measure(bootstrap_servers: str, plan: FormatsPlan, log: Callable[[str], None]) -> FormatFigures:
    """Run all rounds: the encoders in a separate process, then the writes."""
    log("formats: encoders alone")
    line = python("tools.benchmarks.formats", str(plan.rounds))
    done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    results = [FormatResult(**each) for each in json.loads(done.stdout)]
    return FormatFigures(results, measure_writes(bootstrap_servers, plan.writes, log))


def _measured(format_: Format, kind: str, rounds: int) -> FormatResult:
    batches = [orders(kind, ROWS, seed) for seed in range(_BATCHES)]
    derived = derive_schema(format_, batches[0].type, "Order", "shop")
    plan = FieldPlan(
        format=format_,
        schema=None if format_ is Format.JSON else derived.schema,
        message=derived.message,
        framing=Framing(b"" if format_ is Format.JSON else b"\0\0\0\0\1"),
        zone="Europe/Berlin",
    )
    encoder = compile_encoder(plan, batches[0].type)
    rates, size = [], 0
    for _ in range(rounds):
        started = time.process_time()
        sizes = [encoder.encode(each, RowFaults(ROWS)).nbytes for each in batches]
        rates.append(ROWS * _BATCHES / (time.process_time() - started))
        size = sum(sizes) // _BATCHES - 4 * ROWS
    return FormatResult(
        format=format_.value,
        records=kind,
        size=size / ROWS,
        best=max(rates),
        median=median(rates),
    )


def run(rounds: int) -> list[dict[str, Any]]:
    """Measure on one core. Pins this process to that core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    return [
        asdict(_measured(format_, kind, rounds))
        for format_ in (Format.JSON, Format.AVRO, Format.PROTOBUF)
        for kind in (FLAT, NO_DOUBLES, NULLS, NESTED)
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]))) + "\n")
