"""Options that are the fields of a dataclass; to typer they are parameters."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def command(function: Callable[..., None]) -> Callable[..., None]:
    """A function as typer wants it: where a parameter is a dataclass, one for each field."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        function(**given)

    called.__doc__ = function.__doc__
    called.__name__ = function.__name__
    called.__signature__ = Signature(list(_parameters(function, hints)))  # type: ignore[attr-defined]
    return called


def _parameters(function: Callable[..., None], hints: dict[str, Any]) -> Iterator[Parameter]:
    for name, parameter in signature(function).parameters.items():
        kind = hints[name]
        if not is_dataclass(kind):
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind)
            continue
        of_fields = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            default = Parameter.empty if field.default is MISSING else field.default
            yield Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=default,
                annotation=of_fields[field.name],
            )
