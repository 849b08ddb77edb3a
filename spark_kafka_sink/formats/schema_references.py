"""Join Avro and JSON Schemas with the registered schemas to which they refer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def bundled(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return a JSON Schema that contains the schemas to which it refers, with names as ids."""
    inner = {
        # In draft 4 the keyword is `id`.
        f"{name} (reference)": {**part, "$id": name, "id": name}
        for name, part in named.items()
    }
    return {**schema, "definitions": {**schema.get("definitions", {}), **inner}}


def inlined(node: Any, named: Mapping[str, Any]) -> Any:
    """Return an Avro schema with the first use of each referenced name replaced by its schema."""
    pending = dict(named)

    def visit(node: Any, namespace: str) -> Any:
        if isinstance(node, str):
            name = node if "." in node else f"{namespace}.{node}" if namespace else node
            known = name if name in pending else node
            return visit(pending.pop(known), "") if known in pending else node
        if isinstance(node, list):
            return [visit(branch, namespace) for branch in node]
        if not isinstance(node, dict):
            return node
        own = str(node.get("name", "")).rpartition(".")[0] or node.get("namespace") or namespace
        changed = dict(node)
        for name in ("type", "items", "values"):
            if name in node:
                changed[name] = visit(node[name], own)
        if "fields" in node:
            changed["fields"] = [
                {**field, "type": visit(field["type"], own)} for field in node["fields"]
            ]
        return changed

    return visit(node, "")
