r"""Parse sasl.jaas.config as Kafka does: exactly one login module and its options.

The text is tokenized like Java's StreamTokenizer in Kafka's JaasConfig. A word consists of letters,
digits and `. - _ $`. A word in single or double quotes can contain any character except a line
break; a backslash escapes the next character (\n, \t etc. and octal numbers have the same meaning
as in C). Even a single slash starts a comment.

Errors never show any part of the text except known names, because text next to a misplaced quote
might be a password.

Source: Kafka's JaasConfig and JaasContext.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.java_classes import did_you_mean_class, known_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TOKEN = re.compile(
    r"""
      (?P<blank>[\x00-\x20]+)
    | (?P<block>/\*(?:[\s\S]*?\*/|[\s\S]*))
    | (?P<line>/[\s\S]?[^\n\r]*)
    | (?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]*))
    | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9._$\-\u00a0-\U0010ffff]*)
    | (?P<quoted>(?P<quote>["'])(?P<inside>(?:\\[\s\S]|(?!(?P=quote))[^\\\n\r])*)(?:(?P=quote))?)
    | (?P<sign>[\s\S])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|[\s\S])")
_CONTROL_CHARACTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")
_OPTION = "kafka.sasl.jaas.config"
_SYNTAX = 'LoginModule required name="value" name="value";'
_SECTION = (
    "Java reads such sections only from a file (-Djava.security.auth.login.config). Set the text "
    f"between the braces: {_SYNTAX}"
)
_QUOTING = (
    f'Put each value in double quotes and escape " and \\ in it with a backslash: {_SYNTAX} '
    "(ending with a semicolon)."
)


class JaasToken(NamedTuple):
    """A token of a JAAS configuration."""

    text: str
    """The text, which can be a secret."""
    is_word: bool
    """False for signs and for tokens that start like a number, for which Java's tokenizer returns
    no text.
    """


def tokens(text: str) -> Iterator[JaasToken]:
    """Yield the tokens of a text. Never fails, because every character is part of a token."""
    for match in _TOKEN.finditer(text):
        if match["quoted"] is not None:
            yield JaasToken(_ESCAPE.sub(_unescape, match["inside"]), is_word=True)
        elif match.lastgroup in ("number", "word", "sign"):
            yield JaasToken(match[0], is_word=match.lastgroup == "word")


def _unescape(match: re.Match[str]) -> str:
    letter = match[1]
    if letter[0] in "01234567":
        return chr(int(letter, 8))
    return _CONTROL_CHARACTERS.get(letter, letter)


class LoginModule(Enum):
    """The supported login modules, by Java class."""

    PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
    SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
    OAUTHBEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    IAM = "software.amazon.msk.auth.iam.IAMLoginModule"
    KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"

    @property
    def simple_name(self) -> str:
        """The class name without its package."""
        return self.value.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class JaasOptions:
    """The options of a login module, by name."""

    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    option_name: str = _OPTION
    """The option that contains the login module; it is shown in errors."""

    def name(self, option: str) -> str:
        """Return the name of an option with the option that contains it, for an error message."""
        return f"{option} in {self.option_name}"

    def text(self, option: str) -> str | None:
        """Return the value as text, or None if it is missing or empty."""
        return self.options.get(option) or None

    def secret(self, option: str) -> Secret | None:
        """Return a secret, which can be a reference, or None if it is missing or empty."""
        text = self.text(option)
        return None if text is None else Secret(text, self.name(option))

    def flag(self, option: str) -> bool:
        """Return True if the value is true, as in Java's parseBoolean."""
        return (self.text(option) or "").lower() == "true"

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the options whose names start with `prefix`, with the prefix removed."""
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
    """Parse the configuration of one login module.

    Args:
        text: `LoginModule required name="value" ...;`.
        option: the option's full name, which is shown in errors.

    Raises:
        ConfigError: the text does not have this form, or the login module is unknown.
    """
    reader = _JaasReader(tokens(text), option)
    entries = list(reader.entries())
    if len(entries) != 1:
        raise reader.problem(
            f"has {len(entries)} login modules, but exactly one is required"
            if entries
            else "is empty"
        )
    name, options = entries[0]
    known = [login_module.value for login_module in LoginModule]
    module = known_class(name, known)
    if module is None:
        raise ConfigError(
            f"option {option} contains an unknown login module",
            hint=did_you_mean_class(name, known) or f"Supported: {', '.join(known)}.",
        )
    return JaasEntry(LoginModule(module), JaasOptions(options, option))


class _JaasReader:
    """Parses login module entries from tokens."""

    def __init__(self, tokens: Iterator[JaasToken], option: str) -> None:
        self._tokens = tokens
        self._option = option

    def entries(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the class and options of each login module."""
        for token in self._tokens:
            if not token.is_word or not token.text:
                raise self.problem("does not start with the class of a login module")
            self._read_flag(next(self._tokens, None))
            yield token.text, dict(self._read_options())

    def problem(self, text: str, hint: str = "") -> ConfigError:
        """Return the error for a text that is not in the expected form."""
        return ConfigError(
            f"option {self._option} {text}",
            hint=hint or f"Use the form {_SYNTAX} (ending with a semicolon).",
        )

    def _read_flag(self, token: JaasToken | None) -> None:
        if token == JaasToken("{", is_word=False):
            raise self.problem(
                "is a section of a JAAS file, such as KafkaClient { ... };", _SECTION
            )
        if token is None or not token.is_word or token.text.lower() not in _FLAGS:
            raise self.problem(
                f"has no control flag after the login module; use one of {', '.join(_FLAGS)}"
            )

    def _read_options(self) -> Iterator[tuple[str, str]]:
        """Yield the option names and values up to the semicolon."""
        for number, token in enumerate(self._tokens, 1):
            if token == JaasToken(";", is_word=False):
                return
            if not token.is_word:
                raise self.problem(
                    f"is invalid: login module option {number} has no name", _QUOTING
                )
            sign, value = next(self._tokens, None), next(self._tokens, None)
            if sign != JaasToken("=", is_word=False) or value is None:
                raise self.problem(
                    f"is invalid: login module option {number} has no value", _QUOTING
                )
            if not value.is_word:
                raise self.problem(
                    f"is invalid: the value of login module option {number} must be quoted",
                    _QUOTING,
                )
            yield token.text, value.text
        raise self.problem("does not end with a semicolon", _QUOTING)
