"""Payloads of the contestants: random lines, flight events as JSON, and orders as columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tools.support.jars import CACHE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

FOLDER = CACHE / "benchmarks"
LINES = 100_000
"""Number of lines. Random picks, as in Java's tool, rarely repeat a line within a batch."""
_RANDOM_SIZE = 100
_VALUES_BYTES = 30_000_000
_ROW_GROUP = 500_000
_CARRIERS = ("AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN")
_ORIGINS = ("EWR", "JFK", "LGA")
_DESTINATIONS = ("ATL", "BOS", "CLT", "DCA", "FLL", "LAX", "MCO", "MIA", "ORD", "SFO")


def random_values(rows: int, size: int = _RANDOM_SIZE, seed: int = 0) -> pa.BinaryArray:
    """Return random letters and digits, `size` bytes per row, which hardly compress."""
    letters = np.frombuffer(b"0123456789abcdefghijklmnopqrstuv", np.uint8)
    body = letters[np.random.default_rng(seed).integers(0, len(letters), rows * size)]
    offsets = np.arange(0, (rows + 1) * size, size, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets.data), pa.py_buffer(np.ascontiguousarray(body).data)]
    return cast("pa.BinaryArray", pa.Array.from_buffers(pa.binary(), rows, buffers))


def random_keys(rows: int, seed: int = 0) -> pa.BinaryArray:
    """Return keys that look like tail numbers: N and five digits."""
    numbers = np.random.default_rng(seed).integers(10_000, 100_000, rows)
    return cast("pa.BinaryArray", _joined("N", _numbers(numbers)).cast(pa.binary()))


def events(rows: int, seed: int = 0) -> pa.StringArray:
    """Return flight events as JSON, with an average size of 131 bytes."""
    rng = np.random.default_rng(seed)
    parts: list[str | pa.StringArray] = [
        '{"flight":',
        _numbers(rng.integers(1000, 10_000, rows)),
        ',"carrier":"',
        _names(_CARRIERS, rng.integers(0, len(_CARRIERS), rows)),
        '","tail":"N',
        _numbers(rng.integers(10_000, 100_000, rows)),
        '","origin":"',
        _names(_ORIGINS, rng.integers(0, len(_ORIGINS), rows)),
        '","dest":"',
        _names(_DESTINATIONS, rng.integers(0, len(_DESTINATIONS), rows)),
        '","delay":',
        _numbers(rng.integers(-20, 180, rows)),
        ',"distance":',
        _numbers(rng.integers(100, 3000, rows)),
        ',"time":"2013-',
        _numbers(rng.integers(10, 13, rows)),
        "-",
        _numbers(rng.integers(10, 29, rows)),
        "T",
        _numbers(rng.integers(10, 24, rows)),
        ':00:00Z"}',
    ]
    return _joined(*parts)


def lines_file(kind: str) -> Path:
    """Return the path of a file of LINES records, one per line. Create it if it is missing."""
    path = FOLDER / f"{kind}-{LINES}.lines"
    if not path.exists():
        values = random_values(LINES) if kind == "random" else events(LINES).cast(pa.binary())
        _write_whole(path, b"".join(b"%b\n" % value.as_py() for value in values))
    return path


def values_file(size: int) -> Path:
    """Return the path of a file of random lines (30 MB or LINES of them). Create it if missing."""
    if size == _RANDOM_SIZE:
        return lines_file("random")
    lines = min(LINES, _VALUES_BYTES // size)
    path = FOLDER / f"values-{size}-{lines}.lines"
    if not path.exists():
        _write_whole(
            path, b"".join(b"%b\n" % value.as_py() for value in random_values(lines, size))
        )
    return path


def read_lines(path: Path) -> pa.BinaryArray:
    """Return the records of a file as one column."""
    return pa.array(path.read_bytes().splitlines(), pa.binary())


def events_file(rows: int) -> Path:
    """Return the path of a Parquet file of `rows` events in `value`. Create it if it is missing."""
    path = FOLDER / f"events-{rows}.parquet"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        schema = pa.schema([("value", pa.string())])
        with pq.ParquetWriter(temporary, schema, use_dictionary=False) as writer:
            for start in range(0, rows, _ROW_GROUP):
                values = events(min(_ROW_GROUP, rows - start), seed=start)
                writer.write_table(pa.table([values], schema=schema))
        temporary.rename(path)
    return path


def events_folder(rows: int, files: int) -> Path:
    """Return the path of a folder of Parquet files with `rows` events. Create it if missing."""
    path = FOLDER / f"events-{rows}-in-{files}"
    if not path.exists():
        temporary = path.with_suffix(".part")
        temporary.mkdir(parents=True, exist_ok=True)
        for number in range(files):
            table = pa.table({"value": events(rows // files, seed=number)})
            pq.write_table(table, temporary / f"{number:05}.parquet", use_dictionary=False)
        temporary.rename(path)
    return path


FLAT, NO_DOUBLES, NULLS, NESTED = "flat", "without doubles", "10% null", "nested"
"""The kinds of orders."""
_NULL_SHARE = 0.1
_STATES = [f"{shop}-{number}" for shop in ("store", "web", "app") for number in range(50)]


def orders(kind: str, rows: int, seed: int = 0) -> pa.StructArray:
    """Return orders: an int, a long, two doubles, four short strings, a timestamp and an int.

    The first double has two decimal places, and the second is random. `NESTED` orders have five of
    these columns, a struct with three fields, and a list and a map with two entries each.
    """
    random = np.random.default_rng(seed)
    columns = _order_columns(rows, random)
    if kind == NO_DOUBLES:
        columns = {name: each for name, each in columns.items() if each.type != pa.float64()}
    if kind == NULLS:
        columns = {
            name: pa.array(each.to_pylist(), each.type, mask=random.random(rows) < _NULL_SHARE)
            for name, each in columns.items()
        }
    if kind == NESTED:
        columns = _nested(columns, rows, random)
    fields = [pa.field(name, each.type, nullable=kind != FLAT) for name, each in columns.items()]
    return pa.StructArray.from_arrays(list(columns.values()), fields=fields)


def _order_columns(rows: int, random: np.random.Generator) -> dict[str, Any]:
    days = 1_700_000_000_000_000 + random.integers(0, 10**12, rows)
    texts = {
        name: _names(_STATES, random.integers(0, len(_STATES), rows))
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


def orders_file(kind: str, rows: int) -> Path:
    """Return the path of a Parquet file of orders. Create it if it is missing."""
    path = FOLDER / f"orders-{kind}-{rows}.parquet"
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part")
        with pq.ParquetWriter(temporary, pa.schema(orders(kind, 1).type)) as writer:
            for start in range(0, rows, _ROW_GROUP):
                batch = orders(kind, min(_ROW_GROUP, rows - start), seed=start)
                writer.write_table(pa.Table.from_struct_array(batch))
        temporary.rename(path)
    return path


def _numbers(values: np.ndarray) -> pa.StringArray:
    return cast("pa.StringArray", pa.array(values).cast(pa.string()))


def _names(names: Sequence[str], indices: np.ndarray) -> pa.StringArray:
    return pa.array(list(names)).take(pa.array(indices))


def _joined(*parts: str | pa.StringArray) -> pa.StringArray:
    """Concatenate the parts of each row."""
    join: Callable[..., pa.StringArray] = pc.binary_join_element_wise
    return join(*parts, "")


def _write_whole(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".part")
    temporary.write_bytes(data)
    temporary.rename(path)
