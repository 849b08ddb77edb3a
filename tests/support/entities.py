"""All message classes of kio, and Hypothesis strategies for their values.

The strategies read the annotations independently of the codec, so that its mistakes are found.
"""

import datetime as dt
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin

from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.index import schema_name_map

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

MESSAGES: dict[str, list[type[Any]]] = {
    name: [
        load_entity_schema(name, version, kind)
        for version, kinds in versions.items()
        for kind in kinds
    ]
    for name, versions in schema_name_map.items()
}

E = TypeVar("E")
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _ms(low: int, high: int) -> st.SearchStrategy[dt.timedelta]:
    return st.integers(low, high).map(lambda ms: dt.timedelta(milliseconds=ms))


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": st.text(max_size=12),
    "bytes": st.binary(max_size=40),
    "records": st.binary(max_size=40),
    "uuid": st.none() | st.uuids().filter(lambda value: value.int != 0),
    "error_code": st.sampled_from(list(ErrorCode)),
    "timedelta_i32": _ms(-(2**31), 2**31 - 1),
    "timedelta_i64": _ms(-(10**12), 10**12),
    "datetime_i64": _ms(0, 4 * 10**12).map(lambda since: EPOCH + since),
}


def entity_of(entity_type: type[E], **fields: Any) -> E:
    """Create a message of plain values, which kio's annotations expect as validated types."""
    return entity_type(**fields)


def entities(entity_type: type[Any]) -> st.SearchStrategy[Any]:
    """Strategy for small values of a message class."""
    return _built(cast("Hashable", entity_type))


@cache
def _built(entity_type: Any) -> st.SearchStrategy[Any]:
    return st.builds(entity_type, **{f.name: _values(f) for f in fields(entity_type)})


def _values(field: Any) -> st.SearchStrategy[Any]:
    inner, nullable = _unwrap(field.type)
    if get_origin(inner) is tuple:
        element, _ = _unwrap(get_args(inner)[0])
        values = st.lists(_scalar(field, element), max_size=2).map(tuple)
    else:
        values = _scalar(field, inner)
    return st.none() | values if nullable else values


def _scalar(field: Any, annotation: Any) -> st.SearchStrategy[Any]:
    if isinstance(annotation, type) and is_dataclass(annotation):
        return entities(annotation)
    return SCALARS[field.metadata["kafka_type"]]


def _unwrap(annotation: Any) -> tuple[Any, bool]:
    members = [m for m in get_args(annotation) if m is not NoneType]
    return (members[0], True) if NoneType in get_args(annotation) else (annotation, False)
