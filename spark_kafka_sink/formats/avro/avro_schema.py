"""Parse Avro schemas, and resolve their names.

Source: the Avro 1.12 specification, "Schema Declaration" and "Names".
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from math import log10
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))
RECORDS = frozenset(("record", "error"))
NAMED = RECORDS | {"enum", "fixed"}
COMPLEX = NAMED | {"array", "map"}
UUID_SIZE = 16
_FIELDS = ("fields", list)
_NAME = re.compile(r"[^\W\d]\w*")
"""A name without namespace. As in Java, letters of all languages are allowed."""
_ATTRIBUTES = {"enum": ("symbols", list), "fixed": ("size", int)}
"""The attribute that each named type needs besides its name, and its type in JSON."""
_LOGICAL_TYPES = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    **{
        f"{zone}timestamp-{unit}": ("long",)
        for zone in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
    "decimal": ("bytes", "fixed"),
    "big-decimal": ("bytes",),
    "uuid": ("string", "fixed"),
    "duration": ("fixed",),
}
"""The types that each logical type can annotate."""
DAYS = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}
"""Numbers above all times of day."""
UUID_TEXT = "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


@dataclass(frozen=True, slots=True)
class AvroSchema:
    """A schema, or a part of one."""

    json: Any
    """The declaration: a name, an object, or the list of a union's branches."""
    namespace: str
    """The enclosing namespace."""
    names: Mapping[str, AvroSchema]
    """Every named type of the whole schema, by full name."""
    records: tuple[str, ...] = ()
    """Full or simple names of the records to choose in unions; if empty, the columns choose."""
    is_exact: bool = False
    """True if values that would lose digits do not fit."""

    @classmethod
    def parse(cls, text: str, record: str | None = None) -> AvroSchema:
        """Parse a schema and register the types that it declares.

        Args:
            text: the schema, which can contain comments.
            record: the names of `records`, separated by commas.

        Raises:
            ConfigError: the text is not an Avro schema, refers to an unknown name, or has no record
                of `record` as its type or in a union.
        """
        names: dict[str, AvroSchema] = {}
        records = () if record is None else tuple(name.strip() for name in record.split(","))
        schema = cls("null", "", names, records).nested(parse_declaration(text))
        choices: list[AvroSchema] = []
        _declare_types(schema, names, choices)
        choices.extend(schema.branches)
        for name in records:
            if not replace(schema, records=(name,)).selected_records(choices):
                known = ", ".join(sorted({child.full_name for child in choices if child.is_record}))
                raise ConfigError(
                    f"the Avro schema has no record {name!r} as its type or in a union",
                    hint=f"Choose one of: {known}." if known else "Remove the name of the record.",
                )
        return schema

    @property
    def kind(self) -> str:
        """The type's name, such as "record" or "long"; "union" for a union."""
        if isinstance(self.json, list):
            return "union"
        return str(self.json["type"] if isinstance(self.json, dict) else self.json)

    @property
    def subject_name(self) -> str:
        """Full name of a record. Empty for other types, as in Confluent's ``AvroSchema.name``."""
        return self.full_name if self.is_record else ""

    @property
    def logical(self) -> str | None:
        """The logical type. An unknown or invalid logical type is ignored, as in Java."""
        name = self.json.get("logicalType") if isinstance(self.json, dict) else None
        if not isinstance(name, str) or self.kind not in _LOGICAL_TYPES.get(name, ()):
            return None
        if name == "decimal" and not _is_decimal(self.json):
            return None
        is_uuid = name != "uuid" or self.json.get("size", UUID_SIZE) == UUID_SIZE
        return name if is_uuid else None

    @property
    def full_name(self) -> str:
        """Full name of a named type, or the kind of any other type."""
        if self.kind not in NAMED:
            return self.kind
        space = self.json.get("namespace")
        return qualified_name(
            str(self.json["name"]), self.namespace if space is None else str(space)
        )

    @property
    def label(self) -> str:
        """The type in messages, with its logical type."""
        return f"{self.full_name} ({self.logical})" if self.logical else self.full_name

    @property
    def is_record(self) -> bool:
        """True for a record, including those that Avro's protocols call errors."""
        return self.kind in RECORDS

    @property
    def branches(self) -> tuple[AvroSchema, ...]:
        """The branches of a union; for any other type, the schema itself."""
        return tuple(map(self.nested, self.json)) if self.kind == "union" else (self,)

    @property
    def decimal_digits(self) -> tuple[int, int]:
        """Number of digits of a decimal before and after the point."""
        scale = self.json.get("scale", 0)
        return self.json["precision"] - scale, scale

    @property
    def accepts_null(self) -> bool:
        """True for the type null, and for unions with it."""
        return any(branch.kind == "null" for branch in self.branches)

    @property
    def element(self) -> AvroSchema:
        """The type of an array's items, or of a map's values."""
        return self.nested(self.json["items" if self.kind == "array" else "values"])

    @property
    def fields(self) -> tuple[tuple[str, AvroSchema, dict[str, Any]], ...]:
        """Name, type and declaration of each field of a record."""
        return tuple(
            (declared["name"], self.nested(declared["type"]), declared)
            for declared in self.json["fields"]
        )

    def selected_records(self, schemas: Sequence[AvroSchema]) -> list[AvroSchema]:
        """Return those that `records` names, by their full or otherwise simple names."""
        names = {schema.full_name: schema for schema in schemas if schema.is_record}
        selected: list[AvroSchema] = []
        for record in self.records:
            simple = [name for name in names if name.rpartition(".")[2] == record]
            selected += [names[name] for name in ([record] if record in names else simple)]
        return selected

    def nested(self, json_: Any) -> AvroSchema:
        """Return a type that is declared within this schema.

        A name is replaced by the type it refers to.
        """
        space = self.full_name.rpartition(".")[0] if self.kind in NAMED else self.namespace
        has_type = "type" in json_ if isinstance(json_, dict) else isinstance(json_, str | list)
        if not has_type:
            raise invalid_schema_error(f"{safe_repr(json.dumps(json_))} has no type")
        if isinstance(json_, dict) and not isinstance(json_.get("type"), str):
            return self.nested(json_.get("type"))
        name = json_["type"] if isinstance(json_, dict) else json_
        # A type can have a name such as "record".
        known = PRIMITIVES | COMPLEX if isinstance(json_, dict) else PRIMITIVES
        if isinstance(name, str) and name not in known:
            declared = self.names.get(qualified_name(name, space)) or self.names.get(name)
            if declared is None:
                raise invalid_schema_error(f"the type {name!r} is not declared")
            return replace(declared, is_exact=True) if self.is_exact else declared
        return replace(self, json=json_, namespace=space)


def _is_decimal(json_: Mapping[str, Any]) -> bool:
    """Return True if precision and scale are valid, and a fixed size has enough bytes."""
    precision, scale = json_.get("precision"), json_.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
        return False
    is_fixed = json_["type"] == "fixed"
    return precision > 0 and (not is_fixed or precision <= log10(2) * (8 * json_["size"] - 1))


def _declare_types(
    schema: AvroSchema, names: dict[str, AvroSchema], branches: list[AvroSchema]
) -> None:
    """Collect named types and the branches of unions, and check what later code relies on."""
    if schema.kind in NAMED:
        _declare_named(schema, names, branches)
    elif schema.kind == "union":
        for branch in schema.json:
            branches.append(schema.nested(branch))  # It can refer to types of earlier branches.
            if branches[-1].kind == "union":
                raise invalid_schema_error("a union contains a union")
            _declare_types(branches[-1], names, branches)
        _check_distinct(_branch_names(schema), "a union")
    elif schema.kind in ("array", "map"):
        needed = "items" if schema.kind == "array" else "values"
        if not isinstance(schema.json, dict) or needed not in schema.json:
            raise invalid_schema_error(f"the type {schema.kind} needs {needed}")
        _declare_types(schema.element, names, branches)


def _declare_named(
    schema: AvroSchema, names: dict[str, AvroSchema], branches: list[AvroSchema]
) -> None:
    needed, type_ = _ATTRIBUTES.get(schema.kind, _FIELDS)
    name, content = schema.json.get("name"), schema.json.get(needed)
    if not isinstance(name, str) or not isinstance(content, type_):
        raise invalid_schema_error(f"the type {schema.kind} needs a name and {needed}")
    if schema.full_name in names:
        if names[schema.full_name].json != schema.json:
            raise invalid_schema_error(f"the type {schema.full_name} is declared twice")
        return
    if isinstance(content, int) and content < 0:
        raise invalid_schema_error(f"the size of {schema.full_name} is negative")
    names[schema.full_name] = schema
    check_full_name(schema.full_name)
    _check_name(name.rpartition(".")[2])
    if schema.kind == "enum":
        _check_symbols(schema)
    declared = schema.json["fields"] if needed == "fields" else ()
    for field_json in declared:
        if not isinstance(field_json, dict) or not {"name", "type"} <= field_json.keys():
            raise invalid_schema_error(f"a field of {schema.full_name} needs a name and a type")
        _check_name(field_json["name"])
        _declare_types(schema.nested(field_json["type"]), names, branches)
    _check_distinct([field_json["name"] for field_json in declared], schema.full_name)


def _check_symbols(enum: AvroSchema) -> None:
    symbols, default = enum.json["symbols"], enum.json.get("default")
    for symbol in symbols:
        _check_name(symbol)
    _check_distinct(symbols, enum.full_name)
    if default is not None and default not in symbols:
        raise invalid_schema_error(f"the default {default!r} is not a symbol of {enum.full_name}")


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise invalid_schema_error(f"{name!r} is not a valid name")


def check_full_name(name: str) -> None:
    """Check the full name of a type, which Java's parser does not allow to be that of a primitive.

    Raises:
        ConfigError: it is the name of a primitive type.
    """
    if name in PRIMITIVES:
        raise invalid_schema_error(
            f"a {name} is a primitive type, so no other type can have this name"
        )


def _check_distinct(names: Sequence[str], owner: str) -> None:
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise invalid_schema_error(f"{owner} has {repeated!r} twice")


def _branch_names(union: AvroSchema) -> list[str]:
    """Return the names that must differ.

    Java's parser also rejects branches of one type with different items, values or logical types.
    """
    return [
        branch.logical or branch.kind if branch.kind in PRIMITIVES else branch.full_name
        for branch in union.branches
        if branch.kind in PRIMITIVES or branch.kind in NAMED
    ]


def qualified_name(name: str, namespace: str) -> str:
    """Return a name with its namespace, unless the name already contains one.

    As in Java, a name with a dot only at its start has no namespace.
    """
    if "." in name:
        return name[1:] if name.rfind(".") == 0 else name
    return f"{namespace}.{name}" if namespace else name


def without_comments(text: str) -> str:
    """Return a schema as JSON: comments are removed, and a primitive type's name gets quotes."""
    if text.strip() in PRIMITIVES:
        return json.dumps(text.strip())
    return _STRING_OR_COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else " ", text)


def parse_declaration(text: str) -> Any:
    """Return a schema's declaration.

    Raises:
        ConfigError: the text is not an Avro schema.
    """
    try:
        declaration = json.loads(without_comments(text))
    except ValueError as error:
        raise invalid_schema_error(f"it is not JSON: {error}") from None
    if not isinstance(declaration, str | dict | list):
        raise invalid_schema_error("it is neither a name, an object nor a union")
    return declaration


def invalid_schema_error(problem: str) -> ConfigError:
    """Return the error for a schema that violates the specification."""
    return ConfigError(f"the Avro schema is invalid: {problem}", hint="Check the schema's text.")
