"""JSON objects of the decision log, read field by field; foreign content raises an error."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NoReturn, cast

from spark_kafka_sink.common.errors import TransactionError

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION: Final = 1
"""Version of the log's records; higher ones are rejected."""
_MAX_INT: Final = 2**63 - 1
_UPGRADE: Final = (
    "Run the query with at least that version of this package again: an older one could "
    "misunderstand what was decided"
)


class JsonObject:
    """A JSON object whose fields are checked when they are read.

    All methods raise a `TransactionError` if the field is missing or has another type.
    """

    __slots__ = ("_fields",)

    def __init__(self, value: object) -> None:
        if not isinstance(value, dict):
            raise malformed("no object")
        self._fields = cast("dict[str, object]", value)

    def has(self, name: str) -> bool:
        """Return True if the field exists."""
        return name in self._fields

    def value(self, name: str) -> object:
        """Return a field of any type."""
        if name not in self._fields:
            raise malformed(f"no field {name}")
        return self._fields[name]

    def text(self, name: str) -> str:
        """Return a text field."""
        return text_of(self.value(name), name)

    def text_or_none(self, name: str) -> str | None:
        """Return a field that is text or null."""
        value = self.value(name)
        return None if value is None else text_of(value, name)

    def number(self, name: str, highest: int = _MAX_INT) -> int:
        """Return an integer field, 0 to `highest`."""
        return number_of(self.value(name), name, highest)

    def array(self, name: str) -> list[object]:
        """Return a list field."""
        return list_of(self.value(name), name)

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
        TransactionError: the text is not such an object, or its version is newer.
    """
    try:
        fields = JsonObject(json.loads(text, parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise malformed("no JSON") from error
    version = fields.number("version")
    if version > VERSION:
        raise TransactionError(
            f"the decision log has a record of version {version}, and this package knows up to "
            f"version {VERSION}",
            hint=_UPGRADE,
        )
    if version < 1:
        raise malformed(f"version {version}")
    return fields


def text_of(value: object, name: str) -> str:
    """Return the value if it is text that can be encoded as UTF-8; otherwise raise."""
    if not isinstance(value, str):
        raise malformed(f"{name} is no text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise malformed(f"{name} is no UTF-8") from error
    return value


def number_of(value: object, name: str, highest: int = _MAX_INT) -> int:
    """Return the value if it is an integer from 0 to `highest`; otherwise raise."""
    if type(value) is not int or not 0 <= value <= highest:
        raise malformed(f"{name} is no number, or out of range")
    return value


def list_of(value: object, name: str) -> list[object]:
    """Return the value if it is a list; otherwise raise."""
    if not isinstance(value, list):
        raise malformed(f"{name} is no list")
    return cast("list[object]", value)


def _refuse_constant(name: str) -> NoReturn:
    raise malformed(f"{name} instead of a number")


def malformed(what: str) -> TransactionError:
    """Return the error for content that this package would not have written."""
    return TransactionError(
        f"a record of the decision log is not what this package writes: {what}",
        hint="Find out who else writes to that topic; nothing is decided until it is repaired",
    )
