"""The fields that a JSON Schema declares, for `unevaluatedProperties`.

The library follows the references and applies each keyword to `DeclaredFields` instead of a value;
`json_validator` calls the rules of this module. The parts include all alternatives and conditions,
whichever of them a row fits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.formats.json.json_name_patterns import NamePattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spark_kafka_sink.formats.json.json_matching import Validator


@dataclass(frozen=True, slots=True)
class DeclaredFields:
    """The fields that a schema or its parts for the same object declare."""

    names: list[str] = field(default_factory=list)
    """Names of the fields."""
    patterns: list[NamePattern | None] = field(default_factory=list)
    """Patterns of the names; None if any field is declared."""
    checked: set[int] = field(default_factory=set)
    """Identities of the schemas to which references lead, which are valid."""

    @classmethod
    def of(cls, validator: Validator) -> DeclaredFields:
        """Return the fields that the validator's schema declares."""
        declared = cls()
        _run_rules(validator.iter_errors(declared))
        return declared


def _run_rules(rules: Iterable[Any]) -> None:
    """Run the rules that a validator applies one by one."""
    for _ in rules:
        pass


def _declare_properties(
    _validator: Validator, properties: Any, declared: DeclaredFields, _schema: Any
) -> None:
    declared.names.extend(properties)


def _declare_patterns(
    _validator: Validator, patterns: Any, declared: DeclaredFields, _schema: Any
) -> None:
    declared.patterns.extend(map(NamePattern.of, patterns))


def _declare_others(
    _validator: Validator, value: Any, declared: DeclaredFields, _schema: Any
) -> None:
    if value is not False:
        declared.patterns.append(None)


def _declare_alternatives(
    validator: Validator, schemas: Any, declared: DeclaredFields, _schema: Any
) -> None:
    for schema in schemas:
        _run_rules(validator.descend(declared, schema))


def _declare_dependents(
    validator: Validator, schemas: Any, declared: DeclaredFields, schema: Any
) -> None:
    _declare_alternatives(validator, schemas.values(), declared, schema)


def _declare_conditions(
    validator: Validator, condition: Any, declared: DeclaredFields, schema: Any
) -> None:
    parts = condition, schema.get("then", {}), schema.get("else", {})
    _declare_alternatives(validator, parts, declared, schema)


FIELD_RULES: dict[str, Callable[[Validator, Any, DeclaredFields, Any], None]] = {
    "properties": _declare_properties,
    "patternProperties": _declare_patterns,
    "additionalProperties": _declare_others,
    "unevaluatedProperties": _declare_others,
    "anyOf": _declare_alternatives,
    "oneOf": _declare_alternatives,
    "dependentSchemas": _declare_dependents,
    "if": _declare_conditions,
}
"""The rule of each keyword; all others declare no fields."""
