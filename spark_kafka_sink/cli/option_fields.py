"""Options of commands as fields of dataclasses, which commands get instead of many parameters."""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields, is_dataclass
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from spark_kafka_sink.broker.config.command_line_settings import HELP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPTION = "option"
"""Key of a field's metadata for its `typer.Option`."""


def cli_option(help_text: str, default: Any = None, *names: str, **settings: Any) -> Any:
    """Define an option as a field of a dataclass.

    Args:
        help_text: description of the option in the command's help.
        default: value if the option is not set.
        names: names of the option, if they differ from the field's name.
        settings: keyword arguments of `typer.Option`.
    """
    typer_option = typer.Option(*names, help=help_text, **settings)
    return field(default=default, metadata={_OPTION: typer_option})


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Convert a function for typer: replace a dataclass parameter by one parameter per field."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: group for name, group in hints.items() if is_dataclass(group)}

    def wrapper(**arguments: Any) -> None:
        for name, group in groups.items():
            arguments[name] = group(
                **{field.name: arguments.pop(field.name) for field in fields(group)}
            )
        function(**arguments)

    wrapper.__doc__ = function.__doc__
    wrapper.__name__ = function.__name__
    wrapper.__signature__ = Signature(list(_expanded_parameters(function, hints)))  # type: ignore[attr-defined]
    return wrapper


def _expanded_parameters(
    function: Callable[..., None], hints: dict[str, Any]
) -> Iterator[Parameter]:
    for name, parameter in signature(function).parameters.items():
        hint = hints[name]
        if not is_dataclass(hint):
            yield parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint)
            continue
        field_hints = get_type_hints(hint, include_extras=True)
        for option in fields(hint):
            default = Parameter.empty if option.default is MISSING else option.default
            hint = field_hints[option.name]
            if (typer_option := typer_option_of(option)) is not None:
                hint = Annotated[hint, typer_option]
            yield Parameter(option.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def typer_option_of(option: Field[Any]) -> Any:
    """Return the `typer.Option` of a dataclass's field, or None if its annotation contains it."""
    if HELP in option.metadata:
        return typer.Option(help=option.metadata[HELP])
    return option.metadata.get(_OPTION)
