"""Join an Avro schema with the registered schemas to which it refers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.formats.avro.avro_schema import (
    COMPLEX,
    NAMED,
    PRIMITIVES,
    RECORDS,
    qualified_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_INNER_TYPE = {"array": "items", "map": "values"}
"""Attributes that contain a type, by the kind of the type that has them."""


def inline_references(schema: Any, referenced: Mapping[str, Any]) -> Any:
    """Return an Avro schema with each type that it does not declare, where it is first used.

    As in Java, types are known by their full names, also those inside of a referenced schema.

    Args:
        schema: the schema.
        referenced: the schemas by the names of the references.
    """
    types = _ReferencedTypes(referenced)
    for other in referenced.values():
        types.collect(other, "")
    return types.join(schema, "")


@dataclass(frozen=True, slots=True)
class _ReferencedTypes:
    """The types of the referenced schemas."""

    referenced: Mapping[str, Any]
    """The schemas by the names of the references."""
    by_name: dict[str, Any] = field(default_factory=dict)
    """The named types, with their namespaces, by full name."""
    declared: set[str] = field(default_factory=set)
    """Full names of the types that the result declares so far."""

    def collect(self, node: Any, space: str) -> Any:
        """Collect the named types of a schema in a namespace."""
        if _is_named(node):
            name = _full_name(node, space)
            space, _, simple = name.rpartition(".")
            self.by_name[name] = {**node, "name": simple, "namespace": space}
        return _with_inner_types(node, space, self.collect)

    def join(self, node: Any, space: str) -> Any:
        """Return a type in a namespace with the types that it does not declare."""
        if isinstance(node, str):
            return self._resolve_name(node, space)
        if _is_named(node):
            name = _full_name(node, space)
            if name in self.declared:
                return name
            self.declared.add(name)
            space = name.rpartition(".")[0]
        return _with_inner_types(node, space, self.join)

    def _resolve_name(self, node: str, space: str) -> Any:
        if node in PRIMITIVES:
            return node
        for name in (qualified_name(node, space), node):
            if name in self.declared:
                return name
            if name in self.by_name:
                return self.join(self.by_name[name], "")
        return self.join(self.referenced[node], "") if node in self.referenced else node


def _is_named(node: Any) -> bool:
    type_name = node.get("type") if isinstance(node, dict) else None
    return isinstance(type_name, str) and type_name in NAMED


def _full_name(node: Mapping[str, Any], space: str) -> str:
    namespace = node.get("namespace")
    return qualified_name(str(node.get("name")), space if namespace is None else str(namespace))


def _with_inner_types(node: Any, space: str, change: Callable[[Any, str], Any]) -> Any:
    """Return a type with the changed types of its branches, items, values and fields."""
    if isinstance(node, list):
        return [change(branch, space) for branch in node]
    if not isinstance(node, dict) or "type" not in node:
        return node
    type_name = node["type"] if isinstance(node["type"], str) else ""
    if type_name in RECORDS:
        fields = [
            {**field, "type": change(field["type"], space)} for field in node.get("fields", ())
        ]
        return {**node, "fields": fields} if fields else node
    # Other keywords are not changed: a referenced type can have the same name.
    attribute = _INNER_TYPE.get(type_name, "type" if type_name not in COMPLEX else "")
    return {**node, attribute: change(node[attribute], space)} if attribute in node else node
