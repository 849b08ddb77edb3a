r"""Parse sasl.jaas.config as Kafka does: one login module and its options.

The tokens of a JAAS configuration, as Java's StreamTokenizer reads them for Kafka's JaasConfig.

Words are of letters, digits and `. - _ $`; a word in quotes, single or double, may hold anything
but a line break, with a backslash before what is meant literally (\n, \t and the like, and octal
numbers, are what they are in C). A slash begins a comment, also a single one.

sasl.jaas.config read as Kafka's JaasConfig and JaasContext read it: exactly one login module.

No error shows any part of the text but names that are known, as what stands beside a misplaced
quote may be a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.common.text import CLOSE, nearest, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from spark_kafka_sink.config.security.values import SecurityValues


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    """In quotes or without: the only kind that has a text in Java."""
    NUMBER = "number"
    """Java makes a number of what begins like one, and Kafka then finds no text."""
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` may be a secret."""

    kind: TokenKind
    text: str


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
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def tokens(text: str) -> Iterator[Token]:
    """Read a text; never fails, as every character is part of some token."""
    for match in _TOKEN.finditer(text):
        if match["number"] is not None:
            yield Token(TokenKind.NUMBER, match["number"])
        elif match["word"] is not None:
            yield Token(TokenKind.WORD, match["word"])
        elif match["quoted"] is not None:
            yield Token(TokenKind.WORD, _ESCAPE.sub(_unescaped, match["inside"]))
        elif match["sign"] is not None:
            yield Token(TokenKind.SIGN, match["sign"])


def _unescaped(match: re.Match[str]) -> str:
    letter = match[1]
    if letter[0] in "01234567":
        return chr(int(letter, 8))
    return _CONTROL.get(letter, letter)


_BEARER = "org.apache.kafka.common.security.oauthbearer"
_AMAZON = "software.amazon.msk.auth.iam"


class LoginHandler(Enum):
    """How OAUTHBEARER comes to its token."""

    ISSUER = "an issuer, or a file"
    UNSECURED = "made by the client"
    MSK_IAM = "signed with AWS's credentials"
    STRIMZI = "an issuer, or given, by Strimzi's names"


_LOGIN_HANDLERS = {
    f"{_BEARER}.OAuthBearerLoginCallbackHandler": LoginHandler.ISSUER,
    f"{_BEARER}.secured.OAuthBearerLoginCallbackHandler": LoginHandler.ISSUER,
    f"{_BEARER}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler": (
        LoginHandler.UNSECURED
    ),
    f"{_AMAZON}.IAMOAuthBearerLoginCallbackHandler": LoginHandler.MSK_IAM,
    "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler": LoginHandler.STRIMZI,
}
_CLIENT_HANDLERS = (
    "org.apache.kafka.common.security.authenticator.SaslClientCallbackHandler",
    f"{_BEARER}.internals.OAuthBearerSaslClientCallbackHandler",
    f"{_AMAZON}.IAMClientCallbackHandler",
    f"{_AMAZON}.IAMOAuthBearerLoginCallbackHandler",
)
_LOGINS = (
    "org.apache.kafka.common.security.authenticator.DefaultLogin",
    "org.apache.kafka.common.security.kerberos.KerberosLogin",
    f"{_BEARER}.internals.OAuthBearerRefreshingLogin",
)
_RETRIEVERS = (
    f"{_BEARER}.DefaultJwtRetriever",
    f"{_BEARER}.ClientCredentialsJwtRetriever",
    f"{_BEARER}.FileJwtRetriever",
)
_ASSERTIONS = (f"{_BEARER}.JwtBearerJwtRetriever",)


def known_class(name: str, known: Iterable[str]) -> str | None:
    """Which of the known classes a name means, None for none.

    A shaded copy of the class has a prefix, as Databricks' kafkashaded.org.apache.kafka....
    """
    return next((each for each in known if name == each or name.endswith(f".{each}")), None)


def did_you_mean_class(name: str, known: Iterable[str]) -> str | None:
    """A hint for a class in another letter case, with a typing error, or without its package."""
    by_short = {each.rpartition(".")[2]: each for each in known}
    package, _, short = name.rpartition(".")
    meant = nearest(short, by_short, CLOSE)
    if meant is None or (package and nearest(name, by_short.values(), CLOSE) is None):
        return None
    return f"Did you mean {by_short[meant]}?"


def login_handler(values: SecurityValues) -> LoginHandler | None:
    """What sasl.login.callback.handler.class means; None where it is not given.

    Raises:
        ConfigError: it, or another option that names a Java class, names one that is not known.
    """
    _known(values, "sasl.client.callback.handler.class", _CLIENT_HANDLERS)
    _known(values, "sasl.login.class", _LOGINS)
    _refuse_assertions(values)
    _known(values, "sasl.oauthbearer.jwt.retriever.class", _RETRIEVERS)
    name = _known(values, "sasl.login.callback.handler.class", _LOGIN_HANDLERS)
    return None if name is None else _LOGIN_HANDLERS[name]


def _refuse_assertions(values: SecurityValues) -> None:
    option = "sasl.oauthbearer.jwt.retriever.class"
    if known_class(values.text(option) or "", _ASSERTIONS) is not None:
        raise ConfigError(
            f"option {values.name(option)} asks for client assertions (jwt-bearer), which are not "
            "supported",
            hint="Log in with kafka.sasl.oauthbearer.client.credentials.client.id and .secret; or "
            "have a token written to a file, which is read anew at each login: "
            "kafka.sasl.oauthbearer.token.endpoint.url=file:///path.",
        )


def _known(values: SecurityValues, option: str, known: Iterable[str]) -> str | None:
    name = values.text(option)
    if name is None:
        return None
    found = known_class(name, known)
    if found is None:
        raise ConfigError(
            f"option {values.name(option)} is {shown(name)}, a Java class that is not known here",
            hint=did_you_mean_class(name, known) or f"Known are {', '.join(known)}.",
        )
    return found


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
