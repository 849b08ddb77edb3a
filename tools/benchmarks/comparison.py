"""The README's table of the rates of complete Spark writes, from the published samples."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tools.benchmarks.spark.contestants import (
    CONFLUENT,
    SINK,
    TUNED_JVM,
    WRITE,
    SparkContestant,
    keyed,
)
from tools.benchmarks.spark.first_writes import NEWEST, SECOND_RECORDS, WARM

_Found = Mapping[str, Any]

_MILLION = 1_000_000
_HALF_STEP = 0.00005
"""Stored medians have four decimals; without this, 0.865 becomes 0.86, unlike in the tables."""
_PEERS = (SINK, TUNED_JVM, CONFLUENT)
_HEADS = ('`format("kafkaprod")`', '`format("kafka")`, tuned', "confluent-kafka in `mapInArrow`")
_KINDS = (
    ("null keys", False, "none"),
    ("keys", True, "none"),
    ("null keys, zstd", False, "zstd"),
    ("keys, zstd", True, "zstd"),
)
"""Kinds of records to compare: name, with or without keys, codec."""


def comparison(parts: _Found) -> str:
    """Return the rates and CPU times of the sink and its peers as Markdown."""
    head = "M rec/s, CPU per record, with Spark's default settings"
    rows = [f"| {head} | {' | '.join(_HEADS)} |", "|---|---|---|---|"]
    for name, with_keys, codec in _KINDS:
        results = [_find(parts["spark"], peer, with_keys, codec=codec) for peer in _PEERS]
        rows.append(_compared(name, results))
    return "\n".join([*rows, _first_writes(parts["first-write"])]) + "\n"


def _first_writes(results: Sequence[_Found]) -> str:
    """Return the row for a session's first writes with the newest PySpark."""
    facts = {"records": SECOND_RECORDS, "pyspark": NEWEST, "write": 1}
    seconds = {
        result["contestant"]: f"{median(sample['seconds'] for sample in result['samples']):.1f} s"
        for result in results
        if facts.items() <= result.items()
    }
    ours = f"{seconds[SINK.name]}; `write` {seconds[WRITE.name]}; after `warm_up` {seconds[WARM]}"
    cells = (f"first write of a session, {SECOND_RECORDS:,} rows", ours, seconds[TUNED_JVM.name])
    return f"| {' | '.join(cells)} | - |"


def _find(series: Sequence[_Found], peer: SparkContestant, with_keys: bool, **facts: Any) -> _Found:
    values = {"contestant": keyed(peer.name) if with_keys else peer.name, **facts}
    return next(result for result in series if values.items() <= result.items())


def _compared(name: str, results: Sequence[_Found]) -> str:
    cells = [
        f"{result['median_records_per_s'] / _MILLION:.2f}, "
        f"{result['median_cpu_us_per_record'] + _HALF_STEP:.2f} µs"
        for result in results
    ]
    return f"| {name} | {' | '.join(cells)} |"
