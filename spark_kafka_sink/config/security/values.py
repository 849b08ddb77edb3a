"""Typed access to the given security options, and the libraries they need."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.extras import require_extra
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.option import PREFIX, Kind, parse_value
from spark_kafka_sink.config.security.model import (
    ClientCredentialsLogin,
    KerberosLogin,
    MskIamLogin,
)
from spark_kafka_sink.config.security.options import SECURITY_OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from spark_kafka_sink.config.aliases import NamedOptions
    from spark_kafka_sink.config.security.model import Login


_EXTRAS = {
    ClientCredentialsLogin: ("oauth", "kafka.sasl.oauthbearer.token.endpoint.url"),
    MskIamLogin: ("msk-iam", "kafka.sasl.mechanism"),
    KerberosLogin: ("gssapi", "kafka.sasl.mechanism"),
}


def check_libraries(login: Login) -> None:
    """Make sure that what a login needs is installed, without importing it.

    Raises:
        ConfigError: it is not.
    """
    wanted = _EXTRAS.get(type(login))
    if wanted is not None:
        extra, option = wanted
        require_extra(extra, f"option {option}")


Setting = Secret | str | int | bool
_OPTIONS = {option.name: option for option in SECURITY_OPTIONS}
_FOLDS = {
    "security.protocol": str.upper,
    "ssl.truststore.type": str.upper,
    "ssl.keystore.type": str.upper,
    "ssl.endpoint.identification.algorithm": str.lower,
}
"""Options whose case does not matter, and which one the table has."""

_SCHEME = re.compile(r"(file|[A-Za-z][A-Za-z0-9+.-]+(?=:/)):", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SecurityValues:
    """The options that were given, by the table's names; those left out have the table's default.

    Args:
        values: what was given; passwords as `Secret`.
        shown: how the user called an option, for errors; empty where it was by the table's name.
        prefix: before the names in `values`, for errors.
    """

    values: Mapping[str, Setting]
    shown: Mapping[str, str] = field(default_factory=dict)
    prefix: str = PREFIX

    @classmethod
    def parse(cls, given: NamedOptions) -> SecurityValues:
        """Read what the user gave.

        Raises:
            ConfigError: a value is not one of those allowed.
        """
        shown = {name: given.given_name(name) for name in given}
        return cls({name: read(name, given[name], shown[name]) for name in given}, shown)

    def name(self, option: str) -> str:
        """How the user called an option."""
        return self.shown.get(option, f"{self.prefix}{option}")

    def given(self, option: str) -> bool:
        """Whether the user said anything."""
        return option in self.values

    def first_given(self, options: Iterable[str]) -> str | None:
        """The first of some options that was given."""
        return next((option for option in options if option in self.values), None)

    def text(self, option: str) -> str | None:
        """A text; None for an empty one too."""
        value = self.values.get(option, _OPTIONS[option].default)
        return str(value) if value is not None and value != "" else None

    def path(self, option: str) -> str | None:
        """A file's path, also where it is written as a URL of the local disk.

        Raises:
            ConfigError: it is on another file system.
        """
        text = self.text(option)
        scheme = None if text is None else _SCHEME.match(text)
        if text is None or scheme is None:
            return text
        if scheme[1].lower() != "file":
            raise ConfigError(
                f"option {self.name(option)} names a file on {scheme[1]}:, where OpenSSL can't "
                "read it",
                hint="Give a path on the local disk, or ship the file with spark.files and give "
                "its name alone.",
            )
        return re.sub("^/+", "/", text[len("file:") :])

    def secret(self, option: str) -> Secret | None:
        """A secret that was given."""
        value = self.values.get(option)
        return value if isinstance(value, Secret) else None

    def number(self, option: str) -> int | None:
        """A whole number."""
        value = self.values.get(option, _OPTIONS[option].default)
        return None if value is None else int(str(value))

    def flag(self, option: str) -> bool:
        """True or false."""
        return self.values.get(option, _OPTIONS[option].default) is True


def read(name: str, text: str, shown: str) -> Setting:
    """The value of one option of the table.

    Raises:
        ConfigError: it is not one of those allowed.
    """
    option = _OPTIONS[name]
    if option.kind is Kind.PASSWORD:
        # Java trims its passwords; librdkafka, which these are of, does not.
        return Secret(str(text).strip() if option.of_java else str(text), shown)
    value = parse_value(option, _FOLDS.get(name, str)(str(text).strip()), shown)
    if not isinstance(value, (str, int)):
        raise TypeError(f"{name} has a type that no security option has")
    return value
