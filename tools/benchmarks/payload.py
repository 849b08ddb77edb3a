"""Payloads of the contestants: random lines, flight events as JSON, and orders as columns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tools.support.jars import CACHE

FOLDER = CACHE / "benchmarks"
EVENTS, RANDOM = "events", "random"
"""Kinds of lines."""
LINES = 100_000
"""Number of lines. Random picks, as in Java's tool, rarely repeat a line within a batch."""
_VALUES_BYTES = 30_000_000
_ROW_GROUP = 500_000
_CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
_ORIGINS = ("EWR", "JFK", "LGA")
_DESTINATIONS = ("ATL", "BOS", "CLT", "DCA", "FLL", "LAX", "MCO", "MIA", "ORD", "SFO")
_EVENT = (
    '{{"flight":{},"carrier":"{}","tail":"N{}","origin":"{}","dest":"{}","delay":{},'
    '"distance":{},"time":"2013-{}-{}T{}:00:00Z"}}'
)
FLAT, NO_DOUBLES, NULLS, NESTED = "flat", "without doubles", "10% null", "nested"
"""The kinds of orders."""
_NULL_SHARE = 0.1
_STATES = [f"{shop}-{number}" for shop in ("store", "web", "app") for number in range(50)]


def random_values(rows: int, size: int = 100, seed: int = 0) -> pa.BinaryArray:
    """Return random letters and digits, `size` bytes per row, which hardly compress."""
    letters = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)
    body = letters[np.random.default_rng(seed).integers(0, len(letters), rows * size)]
    offsets = np.arange(0, (rows + 1) * size, size, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(np.ascontiguousarray(body).data)]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), rows, buffers))


def random_keys(rows: int, seed: int = 0) -> pa.BinaryArray:
    """Return keys that look like tail numbers: N and five digits."""
    numbers = np.random.default_rng(seed).integers(10_000, 100_000, rows)
    return pa.array([b"N%d" % number for number in numbers.tolist()])


def events(rows: int, seed: int = 0) -> pa.StringArray:
    """Return flight events as JSON, with an average size of 131 bytes."""
    random = np.random.default_rng(seed)
    columns = (
        random.integers(1000, 10_000, rows),
        random.choice(_CARRIERS, rows),
        random.integers(10_000, 100_000, rows),
        random.choice(_ORIGINS, rows),
        random.choice(_DESTINATIONS, rows),
        random.integers(-20, 180, rows),
        random.integers(100, 3000, rows),
        random.integers(10, 13, rows),
        random.integers(10, 29, rows),
        random.integers(10, 24, rows),
    )
    fields = zip(*(column.tolist() for column in columns), strict=True)
    return pa.array([_EVENT.format(*values) for values in fields])


def _cached(name: str, write: Callable[[Path], None]) -> Path:
    """Return the path of a file or folder in the cache. Create it if it is missing."""
    path = FOLDER / name
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        write(temporary)
        temporary.rename(path)
    return path


def lines_file(kind: str) -> Path:
    """Return the path of a file of LINES records (EVENTS or RANDOM), one per line."""
    values: Callable[[int], pa.Array[Any]] = random_values if kind == RANDOM else events
    return _lines(f"{kind}-{LINES}", lambda: values(LINES))


def values_file(size: int) -> Path:
    """Return the path of a file of random lines (30 MB or LINES of them)."""
    lines = min(LINES, _VALUES_BYTES // size)
    return _lines(f"values-{size}-{lines}", lambda: random_values(lines, size))


def _lines(name: str, values: Callable[[], pa.Array[Any]]) -> Path:
    def write(path: Path) -> None:
        lines: list[bytes] = cast("Any", values()).cast(pa.binary()).to_pylist()
        path.write_bytes(b"\n".join(lines) + b"\n")

    return _cached(f"{name}.lines", write)


def read_lines(path: Path) -> pa.BinaryArray:
    """Return the records of a file as one column."""
    return pa.array(path.read_bytes().splitlines(), pa.binary())


def events_file(rows: int) -> Path:
    """Return the path of a Parquet file of `rows` events in `value`."""
    return _parquet(
        f"events-{rows}", rows, lambda count, seed: pa.table({"value": events(count, seed)})
    )


def orders_file(kind: str, rows: int) -> Path:
    """Return the path of a Parquet file of orders."""
    return _parquet(
        f"orders-{kind}-{rows}",
        rows,
        lambda count, seed: pa.Table.from_struct_array(orders(kind, count, seed)),
    )


def _parquet(name: str, rows: int, table: Callable[[int, int], pa.Table]) -> Path:
    def write(path: Path) -> None:
        with pq.ParquetWriter(path, table(1, 0).schema, use_dictionary=False) as writer:
            for start in range(0, rows, _ROW_GROUP):
                writer.write_table(table(min(_ROW_GROUP, rows - start), start))

    return _cached(f"{name}.parquet", write)


def events_folder(rows: int, files: int) -> Path:
    """Return the path of a folder of Parquet files with `rows` events."""

    def write(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        for number in range(files):
            table = pa.table({"value": events(rows // files, seed=number)})
            pq.write_table(table, folder / f"{number:05}.parquet", use_dictionary=False)

    return _cached(f"events-{rows}-in-{files}", write)


def orders(kind: str, rows: int, seed: int = 0) -> pa.StructArray:
    """Return orders: an int, a long, two doubles, four short strings, a timestamp and an int.

    The first double has two decimal places, and the second is random. `NESTED` orders have five of
    these columns, a struct with three fields, and a list and a map with two entries each.
    """
    random = np.random.default_rng(seed)
    columns = _order_columns(rows, random)
    if kind == NO_DOUBLES:
        columns = {name: column for name, column in columns.items() if column.type != pa.float64()}
    if kind == NULLS:
        columns = {
            name: pa.array(column.to_pylist(), column.type, mask=random.random(rows) < _NULL_SHARE)
            for name, column in columns.items()
        }
    if kind == NESTED:
        columns = _nested(columns, rows, random)
    fields = [
        pa.field(name, column.type, nullable=kind != FLAT) for name, column in columns.items()
    ]
    return pa.StructArray.from_arrays(list(columns.values()), fields=fields)


def _order_columns(rows: int, random: np.random.Generator) -> dict[str, Any]:
    days = 1_700_000_000_000_000 + random.integers(0, 10**12, rows)
    texts = {
        name: pa.array(random.choice(_STATES, rows))
        for name in ("channel", "status", "city", "product")
    }
    return {
        "order_id": pa.array(random.integers(0, 100_000, rows).astype(np.int32)),
        "customer": pa.array(random.integers(0, 1 << 33, rows)),
        "price": pa.array(np.round(random.random(rows) * 1000, 2)),
        "score": pa.array(random.random(rows) * 1000),
        **texts,
        "ordered_at": cast("Any", pa.array(days)).cast(pa.timestamp("us", "UTC")),
        "quantity": pa.array(random.integers(0, 100, rows).astype(np.int32)),
    }


def _nested(columns: dict[str, Any], rows: int, random: np.random.Generator) -> dict[str, Any]:
    names = list(columns)
    offsets: Any = pa.array(np.arange(rows + 1, dtype=np.int32) * 2)
    numbers: Any = pa.array(random.integers(0, 1000, 2 * rows).astype(np.int32))
    keys: Any = pa.array(["color", "size"] * rows)
    return {
        **{name: columns[name] for name in names[:5]},
        "place": pa.StructArray.from_arrays([columns[name] for name in names[5:8]], names[5:8]),
        "amounts": pa.ListArray.from_arrays(offsets, numbers),
        "labels": pa.MapArray.from_arrays(offsets, keys, keys),
    }
