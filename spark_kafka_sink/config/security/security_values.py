"""Typed access to the security options that are set."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.option_definition import PREFIX, OptionType
from spark_kafka_sink.config.option_parser import parse_value
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.config.aliases import NamedOptions

Setting = Secret | str | float | bool
_OPTIONS = {option.name: option for option in SECURITY_OPTIONS}
_SCHEME = re.compile(r"(file|[A-Za-z][A-Za-z0-9+.-]+(?=:/)):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SecurityValues:
    """The options that are set, by the table's names. Other options have the table's defaults."""

    values: Mapping[str, Setting]
    """The values; passwords are `Secret` objects."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Names as the user wrote them, if they differ from the table; used in errors."""
    prefix: str = PREFIX
    """Prefix of the names in `values`; used in errors."""

    @classmethod
    def parse(cls, options: NamedOptions, names: Iterable[str] | None = None) -> SecurityValues:
        """Parse the options with these names; by default, all options that are set.

        Raises:
            ConfigError: a value is not allowed.
        """
        spellings = {name: options.spelling(name) for name in options}
        chosen = options if names is None else names
        return cls(
            {name: parse_setting(name, options[name], spellings[name]) for name in chosen},
            spellings,
        )

    def name(self, option: str) -> str:
        """Return an option's name as the user wrote it."""
        return self.spellings.get(option, f"{self.prefix}{option}")

    def is_set(self, option: str) -> bool:
        """Return True if the user set the option."""
        return option in self.values

    def text(self, option: str) -> str | None:
        """Return the value as text, or None if it is missing or empty."""
        value = self.values.get(option, _OPTIONS[option].default)
        return str(value) if value is not None and value != "" else None

    def path(self, option: str) -> str | None:
        """Return the path of a file. The option can also be a `file:` URL.

        Raises:
            ConfigError: the URL refers to a different file system.
        """
        text = self.text(option)
        scheme = None if text is None else _SCHEME.match(text)
        if text is None or scheme is None:
            return text
        if scheme[1].lower() != "file":
            raise ConfigError(
                f"option {self.name(option)} refers to a file on {scheme[1]}:, which OpenSSL "
                "cannot read",
                hint="Use a local path, or distribute the file with spark.files and use its file "
                "name only.",
            )
        return re.sub("^/+", "/", text[len("file:") :])

    def secret(self, option: str) -> Secret | None:
        """Return a secret, or None if it is not set."""
        value = self.values.get(option)
        return value if isinstance(value, Secret) else None

    def number(self, option: str) -> int | None:
        """Return a whole number, or None if it is not set and has no default."""
        value = self.values.get(option, _OPTIONS[option].default)
        return None if value is None else int(str(value))

    def fraction(self, option: str) -> float:
        """Return a number with decimals."""
        return float(str(self.values.get(option, _OPTIONS[option].default)))

    def flag(self, option: str) -> bool:
        """Return True if the option is true."""
        return self.values.get(option, _OPTIONS[option].default) is True


def parse_setting(name: str, text: str, spelling: str) -> Setting:
    """Parse the value of one option.

    `name` is the table's name, `spelling` the user's.

    Raises:
        ConfigError: the value is not allowed.
    """
    option = _OPTIONS[name]
    if option.kind is OptionType.PASSWORD:
        # Java trims the passwords of its options; librdkafka does not trim its passwords.
        return Secret(str(text).strip() if option.is_java_option else str(text), spelling)
    value = parse_value(option, text, spelling)
    if not isinstance(value, (str, int, float)):
        raise TypeError(f"{name} has a type that security options do not support")
    return value
