"""Checks of arguments to the package's public functions, and the text of option values.

Without these checks, a wrong object would fail deep inside the package with an error about an
attribute that the caller never used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

SESSION = "a SparkSession"
FRAME = "a DataFrame"
REPORT = "a DeliveryReport"
_OPTIONS_HINT = (
    "For example {'kafka.bootstrap.servers': 'localhost:9092', 'topic': 'events'}. In a stream, "
    "use .foreachBatch(micro_batch_writer(options))."
)


def check_argument(
    call: str, value: object, expected: str, attributes: Collection[str], hint: str = ""
) -> None:
    """Raise an error if an argument does not have the attributes that a function uses.

    Args:
        call: the function, such as `register(spark)`.
        value: the argument.
        expected: the expected kind of object, with an article.
        attributes: names of the required attributes.
        hint: what the user must do.

    Raises:
        ConfigError: an attribute is missing.
    """
    if not all(hasattr(value, name) for name in attributes):
        raise ConfigError(f"{call} needs {expected}, not {_type_text(value)}", hint=hint or None)


def options_as_text(call: str, options: Mapping[str, Any]) -> dict[str, str]:
    """Return the options as text, as Spark's `option` converts them.

    Args:
        call: the function that was called, for an error message.
        options: the options.

    Raises:
        ConfigError: the options are not a mapping of names to values, or a value is None.
    """
    check_argument(call, options, "a dict of options", ("items", "keys"), _OPTIONS_HINT)
    for name, value in options.items():
        if not isinstance(name, str):
            raise ConfigError(f"{call}: the name of an option is {_type_text(name)}, not a string")
        if value is None:
            raise ConfigError(
                f"{call}: option {name} is None", hint="Set a value, or omit the option."
            )
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }


def _type_text(value: object) -> str:
    if value is None:
        return "None"
    package, name = type(value).__module__.partition(".")[0], type(value).__name__
    return f"an object of type {name if package == 'builtins' else f'{package}.{name}'}"
