"""Functions that PySpark before 4.1 does not have, for `kafka_partitions`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt
    from pyspark.sql import Column, DataFrame

    Hashes = npt.NDArray[np.uint32]

_SEED = np.uint32(42)
_CANDIDATES = 64
"""Number of integers that are hashed for each partition, in a first attempt."""


def bigint_udf(function: Callable[[pa.Array[Any]], pa.Array[Any]]) -> Callable[[Column], Column]:
    """Return a function on a binary column that computes BIGINT from Arrow arrays."""
    from pyspark.sql.pandas import functions

    def of_arrow(values: pa.Array) -> pa.Array:  # type: ignore[type-arg]  # Spark evaluates these
        return function(values)

    if hasattr(functions, "arrow_udf"):
        return cast("Callable[[Column], Column]", functions.arrow_udf(of_arrow, "bigint"))  # type: ignore[call-overload]
    import pandas as pd  # a dependency of pandas_udf

    def of_pandas(values: pd.Series) -> pd.Series:
        return function(pa.array(values, pa.binary())).to_pandas(integer_object_nulls=True)

    of_pandas.__annotations__ = {"values": pd.Series, "return": pd.Series}
    return cast("Callable[[Column], Column]", functions.pandas_udf(of_pandas, "bigint"))  # type: ignore[call-overload]


def repartition_by_id(frame: DataFrame, count: int, partition: Column) -> DataFrame:
    """Put each row into the partition with this number, which is not null."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(count, partition)
    from pyspark.sql import functions as sf

    numbers = sf.array(*map(sf.lit, numbers_of_partitions(count)))
    # An array's subscript is evaluated for each row, and element_at counts from 1.
    return frame.repartition(count, sf.element_at(numbers, partition + 1))


def numbers_of_partitions(count: int) -> list[int]:
    """Return an integer for each partition that `repartition(count, column)` puts into it."""
    candidates = np.arange(count * _CANDIDATES, dtype=np.uint32)
    while True:
        partitions = _murmur3(candidates).view(np.int32).astype(np.int64) % count
        taken, first = np.unique(partitions, return_index=True)
        if len(taken) == count:
            return cast("list[int]", candidates[first].tolist())
        candidates = np.arange(2 * len(candidates), dtype=np.uint32)


def _murmur3(numbers: Hashes) -> Hashes:
    """Return the hash by which Spark partitions integers (``Murmur3_x86_32.hashInt``)."""
    mixed = _rotate_left(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    hashes = _rotate_left(_SEED ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    hashes ^= np.uint32(4)  # the length in bytes
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))


def _rotate_left(numbers: Hashes, bits: int) -> Hashes:
    return (numbers << np.uint32(bits)) | (numbers >> np.uint32(32 - bits))
