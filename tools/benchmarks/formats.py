"""The encoders of `value.format` alone, on one core: no Spark, no broker.

Batches of 10,000 records of ten fields: int, long, two doubles (one with two digits after the
point, one random), four short strings, timestamp, int. The clock is the process's CPU time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.fields import RowFaults
from spark_kafka_sink.formats.plan import (
    FieldPlan,
    Framing,
    compile_encoder,
    derive_schema,
)
from tools.benchmarks.processes import python
from tools.benchmarks.results import Table, Target, at_least
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROWS = 10_000
_BATCHES = 8
"""Different batches, encoded in turn."""
_NULLS = 0.1
FLAT, NO_DOUBLES, NULLS, NESTED = "flat", "without doubles", "10% null", "nested"
_WANTED = {
    (Format.AVRO, FLAT): 6.0,
    (Format.PROTOBUF, FLAT): 6.0,
    (Format.JSON, FLAT): 2.5,
    (Format.JSON, NO_DOUBLES): 4.0,
}
"""Target: million records per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FormatResult:
    """Records per second of one format and kind of records, and bytes per record."""

    format: str
    records: str
    size: float
    best: float
    median: float


@dataclass(frozen=True, slots=True)
class FormatFigures:
    """Results of all formats."""

    results: Sequence[FormatResult]

    def tables(self) -> list[Table]:
        """Return one table of the rates."""
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
        return [Table(title, ("format", "records", "bytes", "M rec/s, median", "best"), rows)]

    def targets(self) -> list[Target]:
        """Return the targets of the issue's record."""
        found = {(Format(each.format), each.records): each for each in self.results}
        return [
            at_least(
                f"{format_.value} encoder, {records}",
                wanted,
                " M rec/s",
                found[format_, records].median / 1e6,
                f"{found[format_, records].median / 1e6:.1f} M rec/s",
            )
            for (format_, records), wanted in _WANTED.items()
        ]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [asdict(each) for each in self.results]


def measure(rounds: int, log: Callable[[str], None]) -> FormatFigures:
    """Run all rounds in a separate process."""
    log("formats")
    line = python("tools.benchmarks.formats", str(rounds))
    done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return FormatFigures([FormatResult(**each) for each in json.loads(done.stdout)])


def records(kind: str, seed: int) -> pa.StructArray:
    """Return one batch; the columns are nullable in Spark's sense except in `flat`."""
    random = np.random.default_rng(seed)
    columns = _columns(random)
    if kind == NO_DOUBLES:
        columns = {name: each for name, each in columns.items() if each.type != pa.float64()}
    if kind == NULLS:
        columns = {
            name: pa.array(each.to_pylist(), each.type, mask=random.random(ROWS) < _NULLS)
            for name, each in columns.items()
        }
    if kind == NESTED:
        columns = _nested(columns, random)
    fields = [pa.field(name, each.type, nullable=kind != FLAT) for name, each in columns.items()]
    return pa.StructArray.from_arrays(list(columns.values()), fields=fields)


def _columns(random: np.random.Generator) -> dict[str, Any]:
    words = np.array(
        [f"{shop}-{number}" for shop in ("store", "web", "app") for number in range(50)]
    )
    days = 1_700_000_000_000_000 + random.integers(0, 10**12, ROWS)
    texts = {
        name: pa.array(random.choice(words, ROWS).tolist())
        for name in ("channel", "status", "city", "product")
    }
    return {
        "order_id": pa.array(random.integers(0, 100_000, ROWS).astype(np.int32)),
        "customer": pa.array(random.integers(0, 1 << 33, ROWS)),
        "price": pa.array(np.round(random.random(ROWS) * 1000, 2)),
        "score": pa.array(random.random(ROWS) * 1000),
        **texts,
        "ordered_at": cast("Any", pa.array(days)).cast(pa.timestamp("us", "UTC")),
        "quantity": pa.array(random.integers(0, 100, ROWS).astype(np.int32)),
    }


def _nested(columns: dict[str, Any], random: np.random.Generator) -> dict[str, Any]:
    """Return five columns, a struct of three others, a list and a map of two entries a row."""
    names = list(columns)
    offsets: Any = pa.array(np.arange(ROWS + 1, dtype=np.int32) * 2)
    numbers: Any = pa.array(random.integers(0, 1000, 2 * ROWS).astype(np.int32))
    keys: Any = pa.array(["color", "size"] * ROWS)
    return {
        **{name: columns[name] for name in names[:5]},
        "place": pa.StructArray.from_arrays([columns[name] for name in names[5:8]], names[5:8]),
        "amounts": pa.ListArray.from_arrays(offsets, numbers),
        "labels": pa.MapArray.from_arrays(offsets, keys, keys),
    }


def _measured(format_: Format, kind: str, rounds: int) -> FormatResult:
    batches = [records(kind, seed) for seed in range(_BATCHES)]
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
    """Measure on one core; pins this process to that core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    return [
        asdict(_measured(format_, kind, rounds))
        for format_ in (Format.JSON, Format.AVRO, Format.PROTOBUF)
        for kind in (FLAT, NO_DOUBLES, NULLS, NESTED)
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]))) + "\n")
