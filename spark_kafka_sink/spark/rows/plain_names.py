"""Column names that `mapInArrow` can resolve, and the original names in the tasks.

`mapInArrow` looks up each column by name: a dot would select a field, and a duplicate is ambiguous.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame

_PLAIN_NAME = re.compile(r"\w+", re.ASCII)


def with_plain_names(df: DataFrame) -> DataFrame:
    """Return the same DataFrame, or one with other names if a name cannot be resolved."""
    names = df.columns
    is_plain = all(map(_PLAIN_NAME.fullmatch, names))
    if is_plain and len({name.lower() for name in names}) == len(names):
        return df
    return df.toDF(*(f"c{position}" for position in range(len(names))))


def renamed(batches: Iterator[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches with these names."""
    for batch in batches:
        fields = [field.with_name(name) for field, name in zip(batch.schema, names, strict=True)]
        schema = pa.schema(fields).with_metadata(batch.schema.metadata)
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
