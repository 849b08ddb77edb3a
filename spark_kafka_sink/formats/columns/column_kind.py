"""The kinds of columns, which all formats distinguish."""

from __future__ import annotations

from enum import Enum, auto


class ColumnKind(Enum):
    """The format-independent meaning of a column's type."""

    STRUCT = auto()
    LIST = auto()
    MAP = auto()
    NULL = auto()
    BOOLEAN = auto()
    INTEGER = auto()
    FLOAT = auto()
    DECIMAL = auto()
    TEXT = auto()
    BYTES = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    LOCAL_TIMESTAMP = auto()
    """A timestamp without time zone."""
    INTERVAL = auto()
    OTHER = auto()
