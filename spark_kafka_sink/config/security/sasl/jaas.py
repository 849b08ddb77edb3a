"""sasl.jaas.config read as Kafka's JaasConfig and JaasContext read it: exactly one login module.

No error shows any part of the text but names that are known, as what stands beside a misplaced
quote may be a password.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.sasl.jaas_tokens import Token, TokenKind, tokens
from spark_kafka_sink.config.security.sasl.java_classes import did_you_mean_class, known_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

FLAGS = ("required", "requisite", "sufficient", "optional")
JAAS = "kafka.sasl.jaas.config"
FORM = 'LoginModule required name="value" name="value";'


class LoginModule(Enum):
    """The login modules that are known, by their class."""

    PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
    SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
    OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    IAM = "software.amazon.msk.auth.iam.IAMLoginModule"
    KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"

    @property
    def short(self) -> str:
        """The class without its package."""
        return self.value.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class JaasOptions:
    """The options of a login module, by their names; `place` is where they stand, for errors."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    place: str = JAAS

    def name(self, option: str) -> str:
        """How an error calls an option."""
        return f"{option} in {self.place}"

    def text(self, option: str) -> str | None:
        """A text; None for an empty one too."""
        return self.options.get(option) or None

    def secret(self, option: str) -> Secret | None:
        """A secret, which may be a reference; None for an empty one too."""
        text = self.text(option)
        return None if text is None else Secret(text, self.name(option))

    def flag(self, option: str) -> bool:
        """Whether it is true, as Java's parseBoolean has it."""
        return (self.text(option) or "").lower() == "true"

    def beginning(self, prefix: str) -> dict[str, str]:
        """The options whose names begin so, without that."""
        return {
            name.removeprefix(prefix): value
            for name, value in self.options.items()
            if name.startswith(prefix)
        }


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module and its options."""

    module: LoginModule
    options: JaasOptions


def parse_jaas(text: str, option: str) -> JaasEntry:
    """Read the configuration of one login module.

    Args:
        text: `LoginModule required name="value" ...;`.
        option: the option's full name, for errors.

    Raises:
        ConfigError: it is not of that form, or the login module is not known.
    """
    reader = _Reader(tokens(text), option)
    entries = list(reader.entries())
    if len(entries) != 1:
        raise reader.problem(
            f"has {len(entries)} login modules and must have one" if entries else "is empty"
        )
    name, options = entries[0]
    module = known_class(name, [each.value for each in LoginModule])
    if module is None:
        meant = did_you_mean_class(name, [each.value for each in LoginModule])
        raise ConfigError(
            f"option {option} has a login module that is not known",
            hint=meant or f"Known are {', '.join(each.value for each in LoginModule)}.",
        )
    return JaasEntry(LoginModule(module), JaasOptions(options, option))


class _Reader:
    """Reads entries off the tokens."""

    def __init__(self, found: Iterator[Token], option: str) -> None:
        self._tokens = found
        self._option = option

    def entries(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Each login module's class and options."""
        for token in self._tokens:
            if token.kind is not TokenKind.WORD or not token.text:
                raise self.problem("does not begin with the class of a login module")
            self._flag(next(self._tokens, None))
            yield token.text, dict(self._options())

    def problem(self, what: str, hint: str = "") -> ConfigError:
        """The error for a text that is not of the form."""
        return ConfigError(
            f"option {self._option} {what}", hint=hint or f"Write it as {FORM} It ends with ;"
        )

    def _flag(self, token: Token | None) -> None:
        if token == Token(TokenKind.SIGN, "{"):
            raise self.problem("is a section of a JAAS file, as KafkaClient { ... };", _SECTION)
        if token is None or token.kind is not TokenKind.WORD or token.text.lower() not in FLAGS:
            raise self.problem(f"has none of {', '.join(FLAGS)} after its login module")

    def _options(self) -> Iterator[tuple[str, str]]:
        """Names and values up to the semicolon."""
        for count, token in enumerate(self._tokens):
            if token == Token(TokenKind.SIGN, ";"):
                return
            place = "the first name" if count == 0 else f"name {count + 1}"
            if token.kind is not TokenKind.WORD:
                raise self.problem(f"has no name where {place} in it should be", _QUOTING)
            sign, value = next(self._tokens, None), next(self._tokens, None)
            if sign != Token(TokenKind.SIGN, "=") or value is None:
                raise self.problem(f"has no =value after {place} in it", _QUOTING)
            if value.kind is not TokenKind.WORD:
                raise self.problem(f"has a value after {place} in it that needs quotes", _QUOTING)
            yield token.text, value.text
        raise self.problem("does not end with a semicolon", _QUOTING)


_SECTION = (
    "Java takes such a file by -Djava.security.auth.login.config alone. Here goes what stands "
    f"between the braces: {FORM}"
)
_QUOTING = (
    f'Put each value in double quotes and a backslash before " and \\ in it: {FORM} It ends with ;'
)
