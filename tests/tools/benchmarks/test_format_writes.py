"""Writes with formats are compared with the tuned JVM sink for the same rows."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

from tools.benchmarks import payload
from tools.benchmarks.results import Sample, Series
from tools.benchmarks.spark.writes import (
    converted,
    format_contestants,
    format_figures,
    with_format,
)


def series(name: str, rate: float) -> Series:
    """Return one run of a million records with one fully used core."""
    sample = Sample(records=1_000_000, seconds=1e6 / rate, cpu_s=1e6 / rate)
    return Series(name, samples=[sample])


def test_contestants_are_compared_with_the_jvm_sink() -> None:
    rates = {
        with_format("json", "flat"): 2e6,
        converted("json", "flat"): 1e6,
        with_format("avro", "flat"): 2e6,
        with_format("avro-confluent", "flat"): 1e6,
        converted("avro", "flat"): 1e6,
        with_format("json", "nested"): 3e6,
        converted("json", "nested"): 2.5e6,
    }
    figures = format_figures([series(name, rate) for name, rate in rates.items()])
    assert [row[4] for row in figures.tables[0].rows] == [
        *("2.00x", "1.00x", "2.00x", "1.00x", "1.00x"),
        *("1.20x", "1.00x"),
    ]
    verdicts = {target.what: target.met for target in figures.targets}
    assert verdicts["Spark, json, flat: rate relative to the tuned JVM sink's"] is True
    assert verdicts["Spark, json, flat: CPU relative to the tuned JVM sink's"] is True
    assert verdicts["Spark, json, nested: rate relative to the tuned JVM sink's"] is False
    assert verdicts["Spark, avro, nested: rate relative to the tuned JVM sink's"] is None
    assert verdicts["Spark, Avro with a registry: CPU relative to Avro without"] is False


def test_every_format_is_measured_with_both_sinks() -> None:
    names = [each.name for each in format_contestants()]
    assert len(names) == len(set(names)) == 13
    assert all(
        converted(format_, kind) in names
        for format_ in ("json", "avro")
        for kind in ("flat", "nested")
    )


@pytest.mark.parametrize("kind", [payload.FLAT, payload.NESTED])
def test_orders_file(kind: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "FOLDER", tmp_path)
    table = pq.read_table(payload.orders_file(kind, 100))
    assert table.num_rows == 100
    assert table.num_columns == (10 if kind == payload.FLAT else 8)
