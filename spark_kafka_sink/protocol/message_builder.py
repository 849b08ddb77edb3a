"""A message of any version out of one tree of plain values.

Versions of an API differ by a few fields. Whoever fills one in names all that the newest knows:
fields that a version lacks are left out, those not given take the schema's default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeAlias

from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.protocol.schema import FieldShape, shape_of

Values: TypeAlias = Mapping[str, Any]
"""Field names to values; structs are mappings themselves, arrays are iterables of them."""

_ZEROS: dict[str, Any] = {
    "string": "",
    "bytes": b"",
    "bool": False,
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(0),
    "timedelta_i64": timedelta(0),
    "datetime_i64": datetime(1970, 1, 1, tzinfo=UTC),
}


def build(entity_type: Any, values: Values) -> Any:
    """Make a message of `entity_type`; values of fields that it does not have are ignored."""
    given = {}
    for name, convert, default in _plan(entity_type):
        if name in values:
            given[name] = convert(values[name])
        elif default is not MISSING:
            given[name] = default
    return entity_type(**given)


@cache
def _plan(entity_type: Any) -> tuple[tuple[str, Callable[[Any], Any], Any], ...]:
    plan = []
    for field in fields(entity_type):
        shape = shape_of(entity_type, field)
        default = MISSING if field.default is not MISSING else _default(shape)
        plan.append((field.name, _converter(shape), default))
    return tuple(plan)


def _default(shape: FieldShape) -> Any:
    if shape.nullable or shape.kind == "uuid":
        return None
    if shape.is_array:
        return ()
    if shape.entity is not None:
        return build(shape.entity, {})
    return _ZEROS.get(shape.kind, 0)


def _converter(shape: FieldShape) -> Callable[[Any], Any]:
    entity: Any = shape.entity
    if shape.is_array:
        if entity is None:
            return lambda items: None if items is None else tuple(items)
        return lambda items: None if items is None else tuple(build(entity, i) for i in items)
    if entity is None:
        return lambda value: value
    return lambda value: None if value is None else build(entity, value)
