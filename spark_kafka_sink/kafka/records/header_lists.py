"""Columns of headers: a list of names and values for each of n records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

HEADER_LISTS = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))
"""The type of a column of headers."""


def constant_column(value: bytes, count: int) -> pa.Array[Any]:
    """Return a column with the same value in each row."""
    return pa.repeat(pa.scalar(value, pa.binary()), count)


def with_headers(
    lists: pa.ListArray[Any] | None, common: list[tuple[str, pa.Array[Any]]]
) -> pa.ListArray[Any]:
    """Return each row's headers, followed by headers that all rows have.

    `common` contains pairs of a name and a column of n values.
    """
    count = len(common[0][1])
    counts = np.zeros(count, np.int64) if lists is None else list_lengths(lists)
    width = len(common)
    keys = [pa.array([name.encode()], pa.binary()) for name, _ in common]
    added = pa.StructArray.from_arrays(
        [
            pa.concat_arrays([key.take(np.zeros(count, np.int32)) for key in keys]),
            pa.concat_arrays([values for _, values in common]),
        ],
        names=["key", "value"],
    )
    entries = added if lists is None else pa.concat_arrays([lists.flatten(), added])
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(counts + width, out=offsets[1:])
    order = np.empty(int(offsets[-1]), np.int64)
    is_own = np.ones(len(order), np.bool_)
    base = len(entries) - len(added)
    for position in range(width):
        places = offsets[1:].astype(np.int64) - width + position
        order[places] = base + position * count + np.arange(count)
        is_own[places] = False
    order[is_own] = np.arange(base)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries.take(order))


def list_lengths(lists: pa.ListArray[Any]) -> NDArray[np.int64]:
    """Return the number of entries of each row; 0 for null."""
    return np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
