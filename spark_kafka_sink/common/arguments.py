"""Checks of the arguments of the package's public functions.

A wrong object would fail somewhere inside, with an error about an attribute that the caller never
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

SESSION = "a SparkSession"
FRAME = "a DataFrame"
REPORT = "a DeliveryReport"


def check_argument(
    call: str, value: object, wanted: str, attributes: Collection[str], hint: str = ""
) -> None:
    """Refuse an object that lacks what a function uses of it.

    Args:
        call: the function, as `register(spark)`.
        value: the argument.
        wanted: what it should be, with its article.
        attributes: names of attributes that it must have.
        hint: what to do.

    Raises:
        ConfigError: one is missing.
    """
    if not all(hasattr(value, name) for name in attributes):
        raise ConfigError(f"{call} needs {wanted}, not {_kind(value)}", hint=hint or None)


def check_options(call: str, options: object) -> None:
    """Refuse options that are no mapping of names to values.

    Raises:
        ConfigError: they are not, or a value is None.
    """
    check_argument(call, options, "a dict of options", ("items", "keys"))
    for name, value in options.items():  # type: ignore[attr-defined]
        if not isinstance(name, str):
            raise ConfigError(f"{call}: the name of an option is {_kind(name)}, and not a string")
        if value is None:
            raise ConfigError(
                f"{call}: option {name} is None", hint="Give a value, or leave it out."
            )


def _kind(value: object) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"
