"""Read the fields of JSON objects in the decision log, and check their types."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn, cast

from spark_kafka_sink.common.errors import TransactionError
from spark_kafka_sink.common.java_integers import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
"""Version of the log's records; records with a higher version are rejected."""
_UPGRADE = (
    "Run the query with a version of this package that supports it: an older version could misread "
    "the decision."
)


class JsonObject:
    """A JSON object whose fields are checked when they are read.

    All methods raise a `TransactionError` if the field is missing or has a different type.
    """

    __slots__ = ("_fields",)

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise malformed("not an object")
        self._fields = cast("dict[str, object]", value)

    def has(self, name: str) -> bool:
        """Return True if the field exists."""
        return name in self._fields

    def value(self, name: str) -> object:
        """Return a field of any type."""
        if name not in self._fields:
            raise malformed(f"field {name} is missing")
        return self._fields[name]

    def text(self, name: str) -> str:
        """Return a text field."""
        return text_of(self.value(name), name)

    def number(self, name: str, highest: int = MAX_LONG) -> int:
        """Return an integer field with a value from 0 to `highest`."""
        return number_of(self.value(name), name, highest)

    def array(self, name: str) -> list[object]:
        """Return a list field."""
        return list_of(self.value(name), name)

    def optional_array(self, name: str) -> list[object]:
        """Return a list field, or an empty list if it is missing."""
        return self.array(name) if self.has(name) else []

    def nested(self, name: str) -> JsonObject:
        """Return a field that is an object."""
        return JsonObject(self.value(name))

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield all fields as (name, value)."""
        for name, value in self._fields.items():
            yield text_of(name, "a name"), value


def parse_object(text: str) -> JsonObject:
    """Parse a JSON object of a supported version.

    Raises:
        TransactionError: the text is not a JSON object, or its version is not supported.
    """
    try:
        fields = JsonObject(json.loads(text, parse_constant=_reject_constant))
    except (ValueError, RecursionError) as error:
        raise malformed("invalid JSON") from error
    version = fields.number("version")
    if version > VERSION:
        raise TransactionError(
            f"the decision log contains a record of version {version}, but this package supports "
            f"only versions up to {VERSION}",
            hint=_UPGRADE,
        )
    if version < 1:
        raise malformed(f"invalid version {version}")
    return fields


def text_of(value: object, name: str) -> str:
    """Return the value; raise an error unless it is a string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise malformed(f"{name} is not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise malformed(f"{name} is not UTF-8") from error
    return value


def text_or_none(value: object, name: str) -> str | None:
    """Return the value; raise an error unless it is text or null."""
    return None if value is None else text_of(value, name)


def number_of(value: object, name: str, highest: int = MAX_LONG) -> int:
    """Return the value; raise an error unless it is an integer from 0 to `highest`."""
    if type(value) is not int or not 0 <= value <= highest:
        raise malformed(f"{name} is not an integer in the allowed range")
    return value


def list_of(value: object, name: str) -> list[object]:
    """Return the value; raise an error unless it is a list."""
    if not isinstance(value, list):
        raise malformed(f"{name} is not a list")
    return cast("list[object]", value)


def _reject_constant(name: str) -> NoReturn:
    raise malformed(f"{name} is not a valid JSON number")


def malformed(problem: str) -> TransactionError:
    """Return the error for a record that this package cannot have written."""
    return TransactionError(
        f"the decision log contains a record that this package did not write: {problem}",
        hint="Find the other application that writes to the topic; no batch can be written until "
        "the log is repaired.",
    )
