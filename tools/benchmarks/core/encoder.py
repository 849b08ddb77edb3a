"""Benchmark the encoder stage by stage, on one core and without a broker.

Chunks of 10,000 rows of 100 bytes, the size that Spark delivers, are distributed to 8 partitions in
batches of 1 MiB. The stages are the steps of `ProducerSession.append` up to slicing the batches.
Times are the process's CPU time. On a dedicated core, CPU time equals wall time, and other
processes do not affect it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_kafka_sink.client.cluster_snapshot import TopicInfo
from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.producer.append.partitioner import Partitioner
from spark_kafka_sink.producer.append.planner import BatchLimits, Plan, plan
from spark_kafka_sink.producer.buffer.batch import OpenBatch
from spark_kafka_sink.producer.error_tolerance import Rows
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.records.encoder import encode_records, size_bounds, split_records
from tools.benchmarks.payload import random_keys, random_values
from tools.benchmarks.processes import python
from tools.benchmarks.results import Table, Target, at_least
from tools.benchmarks.topics import PARTITIONS
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROWS = 10_000
CHUNKS_PER_ROUND = 20
NULL_KEYS, KEYED = "null keys", "keyed, 8 partitions"
_WANTED = {NULL_KEYS: 8.0, KEYED: 4.0}
"""Target: millions of records encoded per second on one core."""
_STAMP_MS = 1_700_000_000_000
_CHUNK_KINDS = 8
"""Number of different chunks. Together they are too large for the CPU cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderResult:
    """Median nanoseconds per row of each stage, and rows per second of whole rounds."""

    name: str
    stages_ns: dict[str, float]
    best: float
    median: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a JSON object."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class EncoderFigures:
    """Results for all kinds of records."""

    results: Sequence[EncoderResult]

    def tables(self) -> list[Table]:
        """Return tables of the rates and of the nanoseconds per record of each stage."""
        rows = [
            (
                result.name,
                f"{result.median / 1e6:.1f}",
                f"{result.best / 1e6:.1f}",
                ", ".join(f"{stage} {spent:.1f}" for stage, spent in result.stages_ns.items()),
            )
            for result in self.results
        ]
        title = "Encoder: 100-byte records, one core, CPU time, no broker"
        return [Table(title, ("records", "M rec/s, median", "best", "ns per record"), rows)]

    def targets(self) -> list[Target]:
        """Return the target for the number of records encoded per second on one core."""
        return [
            at_least(
                f"encoder, {result.name}",
                _WANTED[result.name],
                " M rec/s",
                result.median / 1e6,
                f"{result.median / 1e6:.1f} M rec/s (best {result.best / 1e6:.1f})",
            )
            for result in self.results
        ]

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures as a JSON object."""
        return [result.to_dict() for result in self.results]


def measure(rounds: int, log: Callable[[str], None]) -> EncoderFigures:
    """Run all rounds in a separate process."""
    log("encoder")
    line = python("tools.benchmarks.core.encoder", str(rounds))
    done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    return EncoderFigures([EncoderResult(**one) for one in json.loads(done.stdout)])


@dataclass(slots=True)
class _Round:
    """Nanoseconds spent in each stage, summed over the chunks of one round."""

    spent: dict[str, int] = field(default_factory=dict)
    _since: int = 0

    def start(self) -> None:
        self._since = time.process_time_ns()

    def done(self, stage: str) -> None:
        now = time.process_time_ns()
        self.spent[stage] = self.spent.get(stage, 0) + now - self._since
        self._since = now

    @property
    def total(self) -> int:
        return sum(self.spent.values())


class _Bench:
    """The write path of a session up to its accumulator."""

    def __init__(self, *, keyed: bool) -> None:
        config = ProducerConfig.parse({"kafka.bootstrap.servers": "127.0.0.1:9092"})
        self._limits = BatchLimits(config.batch_size)
        self._partitioner = Partitioner(config, Random(0))
        leaders = (1,) * PARTITIONS
        self._topics = (TopicInfo("t", None, leaders, leaders),)
        self._open: dict[int, OpenBatch] = {}
        self._chunks = [_chunk(seed, keyed=keyed) for seed in range(_CHUNK_KINDS)]

    def round(self) -> _Round:
        """Encode CHUNKS_PER_ROUND chunks."""
        clock = _Round()
        for number in range(CHUNKS_PER_ROUND):
            self._encode(self._chunks[number % _CHUNK_KINDS], clock)
        return clock

    def _encode(self, rows: Rows, clock: _Round) -> None:
        clock.start()
        sizes = size_bounds(rows.columns)
        clock.done("sizes")
        route = self._partitioner.assign(rows, self._topics)
        clock.done("route (hash)" if rows.columns.key is not None else "route (sticky)")
        layout = plan(route.targets, sizes, _STAMP_MS, self._open.get, self._limits)
        clock.done("plan (sort)" if layout.order is not None else "plan")
        encoded = encode_records(
            rows.columns, layout.offset_deltas, layout.timestamp_deltas, layout.order
        )
        clock.done("encode, gather" if layout.order is not None else "encode")
        slices = _cut(encoded, layout)
        clock.done("slice")
        self._remember(layout, slices)

    def _remember(self, layout: Plan, slices: list[memoryview]) -> None:
        for segment, data in zip(layout.segments, slices, strict=True):
            before = 61 if segment.opens else self._open[segment.target].size
            records = segment.first_delta + segment.stop - segment.start
            self._open[segment.target] = OpenBatch(
                records, before + data.nbytes, segment.base_timestamp
            )


def _chunk(seed: int, *, keyed: bool) -> Rows:
    key = random_keys(ROWS, seed) if keyed else None
    return Rows(columns=Columns(value=random_values(ROWS, seed=seed), key=key), topics=("t",))


def _cut(encoded: pa.BinaryArray, layout: Plan) -> list[memoryview]:
    return split_records(encoded, [*(each.start for each in layout.segments), len(encoded)])


def _measure(name: str, rounds: int, *, keyed: bool) -> EncoderResult:
    bench = _Bench(keyed=keyed)
    bench.round()
    done = [bench.round() for _ in range(rounds)]
    rows = ROWS * CHUNKS_PER_ROUND
    rates = [rows / one.total * 1e9 for one in done]
    stages = {stage: median(one.spent[stage] for one in done) / rows for stage in done[0].spent}
    return EncoderResult(name=name, stages_ns=stages, best=max(rates), median=median(rates))


def run(rounds: int) -> list[dict[str, Any]]:
    """Measure on one core. Pins this process to that core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    return [
        _measure(NULL_KEYS, rounds, keyed=False).to_dict(),
        _measure(KEYED, rounds, keyed=True).to_dict(),
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(int(sys.argv[1]))) + "\n")
