"""What a field of one of kio's message classes looks like on the wire."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin

ENTITY = "entity"
_VARIABLE = ("string", "bytes", "records", ENTITY)
_EMPTY: dict[str, object] = {"string": "", "bytes": b"", "bool": False, "float64": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldShape:
    """One field: its wire type, and how it is wrapped.

    `kind` is kio's kafka_type, "datetime_i64?" where -1 is none, or "entity". `nullable` is about
    the array where the field is one. `absent` is the value of a tagged field that was not sent.
    """

    name: str
    kind: str
    entity: type[Any] | None
    is_array: bool
    nullable: bool
    flexible: bool
    tag: int | None
    absent: Any

    @property
    def is_fixed(self) -> bool:
        """Whether the field always takes the same number of bytes."""
        return not self.is_array and self.kind not in _VARIABLE


def shape_of(entity_type: type[Any], field: Field[Any]) -> FieldShape:
    """Read a field's annotations and metadata."""
    inner, nullable = _without_none(field.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner, _ = _without_none(get_args(inner)[0])
    entity = inner if is_dataclass(inner) and isinstance(inner, type) else None
    kind = ENTITY if entity else field.metadata["kafka_type"]
    tag = field.metadata.get("tag")
    return FieldShape(
        name=field.name,
        kind="datetime_i64?" if kind == "datetime_i64" and nullable else kind,
        entity=entity,
        is_array=is_array,
        nullable=nullable and (is_array or tag is None or entity is None),
        flexible=entity_type.__flexible__ and not _is_client_id(entity_type, field),
        tag=tag,
        absent=_absent(field, kind) if tag is not None else None,
    )


def _is_client_id(entity_type: type[Any], field: Field[Any]) -> bool:
    """The header's client id is never compact, so that a broker can read it in any version."""
    return entity_type.__name__ == "RequestHeader" and field.name == "client_id"


def _without_none(annotation: Any) -> tuple[Any, bool]:
    members = get_args(annotation)
    if NoneType not in members:
        return annotation, False
    return next(member for member in members if member is not NoneType), True


def _absent(field: Field[Any], kind: str) -> Any:
    """The default that the schema gives; a struct without one is made of its fields' defaults."""
    if field.default is not MISSING:
        return field.default
    if kind != ENTITY:
        return _EMPTY.get(kind, 0)
    nested: Any = field.type
    values = {f.name: _absent(f, f.metadata.get("kafka_type", ENTITY)) for f in fields(nested)}
    return nested(**values)
