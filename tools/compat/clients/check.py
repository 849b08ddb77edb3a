"""Tasks and checks of a client."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

COUNT = 100
VALUES = tuple(f"value-{number}" for number in range(COUNT))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_numbers = itertools.count(1)


class Task(StrEnum):
    """Columns of the matrix."""

    PRODUCE = "produce"
    CONSUME = "consume"
    GROUPS = "groups"
    TOPICS = "topics"
    TRANSACTIONS = "transactions"


Check: TypeAlias = Callable[[str], None]
"""Function that does a task with the broker at these addresses; raises if it fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRow:
    """A client and the tasks that it supports."""

    name: str
    version: str
    checks: Mapping[Task, Check]


def new_topic() -> str:
    """Return an unused topic name; the broker creates the topic on first use."""
    return f"matrix-{next(_numbers)}"


def expect(found: object, wanted: object) -> None:
    """Raise AssertionError unless both values are equal.

    Raises:
        AssertionError: the values differ.
    """
    if found != wanted:
        raise AssertionError(f"found {str(found)[:200]}, not {str(wanted)[:200]}")
