"""Keep the numbers of a derived message's fields from one version of its schema to the next.

Readers identify fields by number only. If two fields of one type swapped their numbers, a registry
would accept the new version, and readers with the earlier class would swap the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.formats.protobuf.protobuf_schema import (
    DURATION,
    TIMESTAMP,
    ProtoField,
    ProtoMessage,
    ProtoSchema,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_kafka_sink.formats.protobuf.protobuf_types import ProtoType

_NUMBERS_END = 1 << 29
"""The number after the highest field number."""
_INTERNAL = range(19_000, 20_000)
"""Numbers that Protobuf reserves for its implementations."""
_NO_MESSAGE = ProtoMessage("", (), is_map_entry=False)


class FieldType(NamedTuple):
    """The type of a field. Enums and most messages are not distinguished by name."""

    kind: ProtoType
    is_repeated: bool
    well_known: str = ""
    """The full name of the message if it is a Timestamp or a Duration."""
    entry: tuple[FieldType, ...] = ()
    """The types of a map's keys and values."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """The numbers of a message's fields, and what the message declares as reserved."""

    numbers: dict[str, int]
    """The number of each field."""
    kept_fields: frozenset[str]
    """The fields that have the number of an earlier version."""
    reserved: list[tuple[int, int]]
    """Ranges of numbers, each with its end excluded."""
    reserved_names: list[str]
    """Names of fields that the message no longer has."""


class Versions:
    """Earlier versions of a message, newest first. Each is read when it is needed."""

    def __init__(self, versions: Iterable[tuple[ProtoSchema, ProtoMessage]] = ()) -> None:
        self._unread = iter(versions)
        self._read: list[tuple[ProtoSchema, ProtoMessage]] = []

    @classmethod
    def of(cls, name: str, schemas: Iterable[str]) -> Versions:
        """Return the versions of a message. `schemas` without the message are left out."""
        parsed = (ProtoSchema.parse(schema) for schema in schemas)
        return cls((schema, schema.messages[name]) for schema in parsed if name in schema.messages)

    def __iter__(self) -> Iterator[tuple[ProtoSchema, ProtoMessage]]:
        for index in count():
            if index == len(self._read):
                version = next(self._unread, None)
                if version is None:
                    return
                self._read.append(version)
            yield self._read[index]

    def of_field(self, name: str) -> Versions:
        """Return the versions of the message that a field, or the values of a map, contain."""
        fields = ((schema, _find_field(message, name)) for schema, message in self)
        inner = ((schema, _message_of(schema, field)) for schema, field in fields)
        return Versions((schema, message) for schema, message in inner if message is not None)


def assign_field_numbers(types: Mapping[str, FieldType], versions: Versions) -> Numbering:
    """Return the numbers of a message's fields.

    A field keeps the number that it has in the latest version. A field that an earlier version had
    with this type gets its number back. Other fields get numbers above all that were used.

    Args:
        types: the fields in the order in which they are numbered if there is no earlier version.
        versions: the earlier versions of the message.

    Raises:
        ConfigError: the latest version leaves no number for a new field.
    """
    latest = next((message for _, message in versions), _NO_MESSAGE)
    numbers = {field.name: field.number for field in latest.fields if field.name in types}
    for name in latest.reserved_names:
        if name in types and name not in numbers:
            free = _remove_numbers(latest.reserved, numbers.values())
            number = _former_number(name, types[name], versions, free)
            numbers |= {} if number is None else {name: number}
    kept_fields = frozenset(numbers)
    unused = _unused_numbers(latest)
    for name in types:
        if name not in numbers:
            numbers[name] = next(unused)
    dropped = [field for field in latest.fields if field.name not in types]
    names = {*latest.reserved_names, *(field.name for field in dropped)} - types.keys()
    ranges = [*latest.reserved, *((field.number, field.number + 1) for field in dropped)]
    reserved = _merge_ranges(_remove_numbers(ranges, numbers.values()))
    return Numbering(numbers, kept_fields, reserved, sorted(names))


def _former_number(
    name: str, type_: FieldType, versions: Versions, free: Iterable[tuple[int, int]]
) -> int | None:
    """Return the number of a field that the latest version has dropped, or None."""
    fields = ((schema, _find_field(message, name)) for schema, message in versions)
    numbers = (
        field.number for schema, field in fields if field and _type_of(schema, field) == type_
    )
    free_numbers = (
        number for number in numbers if any(start <= number < end for start, end in free)
    )
    return next(free_numbers, None)


def _type_of(schema: ProtoSchema, field: ProtoField) -> FieldType:
    message = schema.messages.get(field.type_name, _NO_MESSAGE)
    ends = sorted(message.fields, key=attrgetter("number")) if message.is_map_entry else ()
    return FieldType(
        field.kind,
        field.is_repeated,
        field.type_name if field.type_name in (TIMESTAMP, DURATION) else "",
        tuple(_type_of(schema, end) for end in ends),
    )


def _unused_numbers(latest: ProtoMessage) -> Iterator[int]:
    """Yield numbers above those that a version uses or reserves.

    Raises:
        ConfigError: there is no such number.
    """
    ends = [field.number + 1 for field in latest.fields] + [end for _, end in latest.reserved]
    # A range to the highest number is usually above all fields.
    limit = min(
        (start for start, end in latest.reserved if end >= _NUMBERS_END), default=_NUMBERS_END
    )
    first = max((end for end in ends if end < _NUMBERS_END), default=1)
    yield from (number for number in range(first, limit) if number not in _INTERNAL)
    raise ConfigError(
        f"the message {latest.name} of the registered schema leaves no number for a new field",
        hint="Set value.schema or key.schema to a schema with the field.",
    )


def _remove_numbers(
    ranges: Iterable[tuple[int, int]], numbers: Iterable[int]
) -> list[tuple[int, int]]:
    """Return ranges without some of their numbers."""
    parts = [*ranges]
    for number in numbers:
        below = [(start, min(end, number)) for start, end in parts]
        above = [(max(start, number + 1), end) for start, end in parts]
        parts = [(start, end) for start, end in below + above if start < end]
    return parts


def _merge_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the same numbers in as few ranges as possible, in their order."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _find_field(message: ProtoMessage, name: str) -> ProtoField | None:
    return next((field for field in message.fields if field.name == name), None)


def _message_of(schema: ProtoSchema, field: ProtoField | None) -> ProtoMessage | None:
    message = None if field is None else schema.messages.get(field.type_name)
    if message is None or not message.is_map_entry:
        return message
    return _message_of(schema, _find_field(message, "value"))
