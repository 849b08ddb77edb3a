"""Benchmark the encoders alone, on one core and without a broker.

`records` encodes chunks of 10,000 rows of 100 bytes, the size that Spark delivers, distributed to 8
partitions in batches of 1 MiB. Its stages are the steps of `ProducerSession.append` up to slicing
the batches. `formats` encodes batches of 10,000 orders with `value.format`. Times are the process's
CPU time. On a dedicated core, CPU time equals wall time, and other processes do not affect it.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from random import Random
from statistics import median
from typing import Any

from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.encoder_spec import (
    EncoderSpec,
    Framing,
    compile_encoder,
    derive_schema,
)
from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterTopic
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.kafka.records.record_encoder import encode_records, size_bounds, split_records
from spark_kafka_sink.producer.append.partitioner import Partitioner
from spark_kafka_sink.producer.buffer.batch import OpenBatchFacts
from spark_kafka_sink.producer.buffer.batch_layout import BatchLayout, BatchLimits, lay_out
from spark_kafka_sink.producer.rows import Rows
from tools.benchmarks import tables
from tools.benchmarks.kafka import PARTITIONS, Workbench
from tools.benchmarks.kafka import Plan as Amounts
from tools.benchmarks.payload import (
    FLAT,
    NESTED,
    NO_DOUBLES,
    NULLS,
    orders,
    random_keys,
    random_values,
)
from tools.benchmarks.results import python, run_json, use_one_core

ROWS = 10_000
_KINDS = 8
"""Number of different chunks or batches. Together they are too large for the CPU cache."""
_MODULE = "tools.benchmarks.core.encoders"
_CHUNKS_PER_ROUND = 20
NULL_KEYS, KEYED = "null keys", "keyed, 8 partitions"
_RECORDS_WANTED = {NULL_KEYS: 8.0, KEYED: 4.0}
"""Target: millions of records encoded per second on one core."""
_STAMP_MS = 1_700_000_000_000
_FORMATS_WANTED = {
    ("avro", FLAT): 6.0,
    ("protobuf", FLAT): 6.0,
    ("json", FLAT): 2.5,
    ("json", NO_DOUBLES): 4.0,
}
"""Target: millions of records per second."""


def _rates(rounds: list[float], rows: int) -> dict[str, float]:
    """Return the best and the median rate of rounds, from their CPU seconds."""
    rates = [rows / seconds for seconds in rounds]
    return {"best": max(rates), "median": median(rates)}


def measure(bench: Workbench, amounts: Amounts) -> tables.Figures:
    """Measure the encoder of records stage by stage."""
    bench.log("encoder")
    return record_figures(run_json(python(_MODULE, "records", str(20 * amounts.rounds))))


def record_figures(results: Sequence[dict[str, Any]]) -> tables.Figures:
    """Return the rates, the nanoseconds per record of each stage, and the targets."""
    rows = [
        (
            result["name"],
            f"{result['median'] / 1e6:.1f}",
            f"{result['best'] / 1e6:.1f}",
            ", ".join(f"{stage} {spent:.1f}" for stage, spent in result["stages_ns"].items()),
        )
        for result in results
    ]
    title = "Encoder: 100-byte records, one core, CPU time, no broker"
    table = tables.Table(title, ("records", "M rec/s, median", "best", "ns per record"), rows)
    targets = [
        tables.at_least(
            f"encoder, {name}", _RECORDS_WANTED[name], " M rec/s", result["median"] / 1e6
        )
        for result in results
        if (name := result["name"])
    ]
    return tables.Figures([table], targets, results)


class _Bench:
    """The write path of a session up to its accumulator, with the nanoseconds of each stage."""

    def __init__(self, *, keyed: bool) -> None:
        config = ProducerConfig.parse({"kafka.bootstrap.servers": "127.0.0.1:9092"})
        self._limits = BatchLimits(config.batch_size)
        self._partitioner = Partitioner(config, Random(0))
        leaders = (1,) * PARTITIONS
        self._topics = (ClusterTopic("t", None, leaders, leaders),)
        self._open: dict[int, OpenBatchFacts] = {}
        self._chunks = [_chunk(seed, keyed=keyed) for seed in range(_KINDS)]
        self._since = 0
        self._spent = Counter[str]()

    def round(self) -> Counter[str]:
        """Encode the chunks of a round, and return the nanoseconds of each stage."""
        self._spent = Counter()
        for number in range(_CHUNKS_PER_ROUND):
            self._since = time.process_time_ns()
            self._encode(self._chunks[number % _KINDS])
        return self._spent

    def _add_stage_time(self, stage: str) -> None:
        now = time.process_time_ns()
        self._spent[stage] += now - self._since
        self._since = now

    def _encode(self, rows: Rows) -> None:
        sizes = size_bounds(rows.columns)
        self._add_stage_time("sizes")
        route = self._partitioner.assign(rows, self._topics)
        self._add_stage_time("route (hash)" if rows.columns.key is not None else "route (sticky)")
        layout = lay_out(route.targets, sizes, _STAMP_MS, self._open.get, self._limits)
        self._add_stage_time("layout (sort)" if layout.order is not None else "layout")
        encoded = encode_records(
            rows.columns, layout.offset_deltas, layout.timestamp_deltas, layout.order
        )
        self._add_stage_time("encode, gather" if layout.order is not None else "encode")
        starts = [segment.start for segment in layout.segments]
        slices = split_records(encoded, [*starts, len(encoded)])
        self._add_stage_time("slice")
        self._remember(layout, slices)

    def _remember(self, layout: BatchLayout, slices: list[memoryview]) -> None:
        for segment, data in zip(layout.segments, slices, strict=True):
            before = self._open[segment.target].size if segment.first_delta else 61
            records = segment.first_delta + segment.stop - segment.start
            self._open[segment.target] = OpenBatchFacts(
                records, before + data.nbytes, segment.base_timestamp
            )


def _chunk(seed: int, *, keyed: bool) -> Rows:
    key = random_keys(ROWS, seed) if keyed else None
    return Rows(columns=Columns(value=random_values(ROWS, seed=seed), key=key), topics=("t",))


def _records(name: str, rounds: int) -> dict[str, Any]:
    bench = _Bench(keyed=name == KEYED)
    bench.round()
    done = [bench.round() for _ in range(rounds)]
    rows = ROWS * _CHUNKS_PER_ROUND
    stages = {stage: median(times[stage] for times in done) / rows for stage in done[0]}
    rates = _rates([times.total() / 1e9 for times in done], rows)
    return {"name": name, "stages_ns": stages, **rates}


def measure_formats(bench: Workbench, amounts: Amounts) -> tables.Figures:
    """Measure the encoders of `value.format`."""
    bench.log("formats: encoders alone")
    results = run_json(python(_MODULE, "formats", str(10 * amounts.rounds)))
    rows = [
        (
            result["format"],
            result["records"],
            f"{result['size']:.0f}",
            f"{result['median'] / 1e6:.1f}",
            f"{result['best'] / 1e6:.1f}",
        )
        for result in results
    ]
    title = "Formats: records of ten fields, encoders alone, one core, CPU time"
    columns = ("format", "records", "bytes", "M rec/s, median", "best")
    medians = {(result["format"], result["records"]): result["median"] / 1e6 for result in results}
    targets = [
        tables.at_least(f"{format_} encoder, {kind}", least, " M rec/s", medians[format_, kind])
        for (format_, kind), least in _FORMATS_WANTED.items()
    ]
    return tables.Figures([tables.Table(title, columns, rows)], targets, results)


def _format(format_: Format, kind: str, rounds: int) -> dict[str, Any]:
    batches = [orders(kind, ROWS, seed) for seed in range(_KINDS)]
    derived = derive_schema(format_, batches[0].type, "Order", "shop")
    compiled = EncoderSpec(
        format=format_,
        schema=None if format_ is Format.JSON else derived.text,
        message=derived.message,
        framing=Framing(b"" if format_ is Format.JSON else b"\0\0\0\0\1"),
        zone="Europe/Berlin",
    )
    encoder = compile_encoder(compiled, batches[0].type)
    spent, size = [], 0.0
    for _ in range(rounds):
        started = time.process_time()
        sizes = [encoder.encode(batch, EncodingErrors(ROWS)).nbytes for batch in batches]
        spent.append(time.process_time() - started)
        size = sum(sizes) / (ROWS * _KINDS) - 4  # without the offsets
    rates = _rates(spent, ROWS * _KINDS)
    return {"format": format_.value, "records": kind, "size": size, **rates}


def main(what: str, rounds: int) -> None:
    """Measure on one core, and print the results as JSON."""
    use_one_core()
    if what == "records":
        results = [_records(name, rounds) for name in (NULL_KEYS, KEYED)]
    else:
        formats = (Format.JSON, Format.AVRO, Format.PROTOBUF)
        kinds = (FLAT, NO_DOUBLES, NULLS, NESTED)
        results = [_format(format_, kind, rounds) for format_ in formats for kind in kinds]
    sys.stdout.write(json.dumps(results) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
