"""Checks of rows against a JSON Schema, which the driver creates and tasks execute.

A check adds errors for entries that do not fit. Entries that are null are checked where they are
written: by the check of the field, list or map that contains them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.formats.columns.cells import Cells
from spark_kafka_sink.formats.columns.encoding_errors import EncodingErrors
from spark_kafka_sink.formats.json.json_encoder import names_of

if TYPE_CHECKING:
    from spark_kafka_sink.formats.columns.cells import Mask
    from spark_kafka_sink.formats.columns.column_type import ColumnType
    from spark_kafka_sink.formats.encoder_spec import Check
    from spark_kafka_sink.formats.json.json_name_patterns import NamePattern


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of the checks."""

    checks: tuple[Check, ...]

    def __call__(self, cells: Cells, writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        for check in self.checks:
            check(cells, writes_nulls)


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of the checks. Each is applied to the entries that fail all earlier checks."""

    checks: tuple[Check, ...]
    path: str

    def __call__(self, cells: Cells, writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        pending = np.arange(len(cells))
        for check in self.checks:
            if not len(pending):
                return
            errors = EncodingErrors(len(pending))
            check(Cells(cells.array.take(pending), errors), writes_nulls)
            pending = pending[errors.rows]
        bad = np.zeros(len(cells), np.bool_)
        bad[pending] = True
        cells.fail(bad, self.path, "fits none of the alternatives in the schema")


@dataclass(frozen=True, slots=True)
class ChildCheck:
    """Checks a field of structs, the items of lists, or the values of maps."""

    check: Check | None
    """The check of entries that are not null; None if all fit."""
    path: str
    """The path of the entries."""
    rejects_null: bool
    """True if the entries must not be written as null."""
    rejects_omission: bool = False
    """True if a field must not be omitted."""

    def apply(self, cells: Cells, *, is_written: bool, writes_nulls: bool) -> None:
        """Check entries; `is_written` is True if nulls are written, not omitted."""
        if self.rejects_null if is_written else self.rejects_omission:
            cells.fail_nulls(self.path)
        if self.check is not None:
            self.check(cells.without_nulls(), writes_nulls)


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """One field of structs."""

    number: int
    child: ChildCheck

    def __call__(self, cells: Cells, writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        field = cells.field(self.number)
        self.child.apply(field, is_written=writes_nulls, writes_nulls=writes_nulls)


@dataclass(frozen=True, slots=True)
class ItemsCheck:
    """The items of lists from position `first` up to `last`."""

    child: ChildCheck
    first: int
    last: int | None

    def __call__(self, cells: Cells, writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        offsets, items = cells.items()
        if self.first or self.last is not None:
            indexes = np.arange(len(items)) - np.repeat(offsets[:-1], np.diff(offsets))
            selected = indexes >= self.first
            items = items.where(selected if self.last is None else selected & (indexes < self.last))
        self.child.apply(items, is_written=True, writes_nulls=writes_nulls)


@dataclass(frozen=True, slots=True)
class EntryNames:
    """Names of map entries: those listed or matched by a pattern, or all others."""

    names: tuple[str, ...] = ()
    patterns: tuple[NamePattern, ...] = ()
    is_rest: bool = False

    def includes(self, name: str) -> bool:
        """Return True if this is one of the names."""
        return bool(self._names_mask([name])[0])

    def select(self, keys: Cells, column: ColumnType) -> Mask:
        """Return a mask of the entries with these names."""
        encoded: Any = names_of(column, keys).dictionary_encode()
        names = [name.decode(errors="replace") for name in encoded.dictionary.to_pylist()]
        return self._names_mask(names).take(np.asarray(encoded.indices))

    def _names_mask(self, names: list[str]) -> Mask:
        mask: Mask = np.array([name in self.names for name in names], np.bool_)
        for pattern in self.patterns:
            mask = mask | pattern.matches(pa.array(names, pa.string()))
        return mask ^ self.is_rest


@dataclass(frozen=True, slots=True)
class EntryValuesCheck:
    """The values of maps, or those of entries with some names."""

    child: ChildCheck
    key: ColumnType
    names: EntryNames | None = None

    def __call__(self, cells: Cells, writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        _, entries = cells.items()
        values = entries.field(1)
        if self.names is not None:
            values = values.where(self.names.select(entries.field(0), self.key))
        self.child.apply(values, is_written=True, writes_nulls=writes_nulls)


@dataclass(frozen=True, slots=True)
class RequiredKeyCheck:
    """A key that each map must have."""

    name: str
    path: str
    key: ColumnType

    def __call__(self, cells: Cells, _writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        offsets, entries = cells.items()
        matches = np.flatnonzero(EntryNames((self.name,)).select(entries.field(0), self.key))
        bad = np.ones(len(cells), np.bool_)
        bad[np.searchsorted(offsets, matches, "right") - 1] = False
        cells.fail(bad, self.path, f"has no key {self.name!r}, which the schema requires")


@dataclass(frozen=True, slots=True)
class AllowedValuesCheck:
    """The values in an `enum` or `const`; texts for a column that is written as text."""

    allowed: tuple[Any, ...]
    column: ColumnType

    def __call__(self, cells: Cells, _writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        is_text = isinstance(self.allowed[0], str)
        values: Any = names_of(self.column, cells) if is_text else _with_one_nan(cells.array)
        known: Any = pc.is_in(values, value_set=pa.array(self.allowed, values.type))
        bad = ~np.asarray(known.to_numpy(zero_copy_only=False), np.bool_)
        cells.fail(bad, self.column.path, "is not in the schema's `enum`")


def _with_one_nan(array: Any) -> Any:
    """Return the values with Python's NaN: Arrow compares its bits, which processors set freely."""
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)


@dataclass(frozen=True, slots=True)
class FiniteCheck:
    """Numbers other than NaN and infinities, which are written as texts."""

    path: str

    def __call__(self, cells: Cells, _writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        bad = ~np.isfinite(cells.numbers())
        cells.fail(bad, self.path, "is NaN or infinite, which JSON numbers cannot be")


@dataclass(frozen=True, slots=True)
class NotFiniteCheck:
    """NaN and infinities, which are written as texts."""

    path: str

    def __call__(self, cells: Cells, _writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        cells.fail(np.isfinite(cells.numbers()), self.path, "is written as a number, not as text")


@dataclass(frozen=True, slots=True)
class NeverCheck:
    """Rejects every entry."""

    path: str

    def __call__(self, cells: Cells, _writes_nulls: bool) -> None:
        """Check entries; see `Check`."""
        bad = np.ones(len(cells), np.bool_)
        cells.fail(bad, self.path, "is not allowed by the schema at this position or key")
