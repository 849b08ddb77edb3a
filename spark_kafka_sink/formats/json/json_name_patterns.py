"""The patterns of a JSON Schema for names, which have JavaScript's meaning."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from spark_kafka_sink.formats.columns.cells import Mask

_PATTERN_TOKEN = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|.", re.DOTALL)
"""An escape, a character class, or another character."""
_SET_SIGNS = re.compile(r"\\.|\[|([&~|-])\1", re.DOTALL)
"""An escape, or what Python warns of in a character class because it may mean sets later."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern for names of fields or map entries, with JavaScript's meaning.

    RE2 matches it if it can: its time is linear in the length of the names.
    """

    text: str
    is_re2: bool

    @classmethod
    def of(cls, pattern: str) -> NamePattern | None:
        """Return a pattern, or None if it cannot be matched."""
        for candidate in (cls(pattern, True), cls(_python_pattern(pattern), False)):
            with suppress(re.error, ValueError, OverflowError, RecursionError):
                candidate.matches(pa.array([""]))
                return candidate
        return None

    def matches(self, names: pa.StringArray) -> Mask:
        """Return a mask of the names that contain a match."""
        if self.is_re2:
            matched: Any = pc.match_substring_regex(names, self.text)
            return np.asarray(matched)
        search = re.compile(self.text).search
        return np.array([search(name or "") is not None for name in names.to_pylist()], np.bool_)


def _python_pattern(pattern: str) -> str:
    r"""Return Python's form of a JavaScript pattern.

    In JavaScript, ``$`` does not match before a line feed at the end, and classes such as ``\d``
    contain ASCII characters only.
    """
    return f"(?a:{''.join(_python_form(match[0]) for match in _PATTERN_TOKEN.finditer(pattern))})"


def _python_form(text: str) -> str:
    """Return an escape, a character class or another character in Python's form."""
    if text[0] != "[":
        return r"\Z" if text == "$" else text
    return "[" + _SET_SIGNS.sub(lambda sign: _escaped_sign(sign[0]), text[1:])


def _escaped_sign(sign: str) -> str:
    if sign[0] == "\\":
        return sign
    return rf"\{sign}" if sign == "[" else rf"{sign[0]}\{sign[1]}"
