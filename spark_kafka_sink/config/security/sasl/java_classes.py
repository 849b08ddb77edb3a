"""Java classes that options name: known by their full name, shaded or not."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.shown import shown
from spark_kafka_sink.common.similarity import CLOSE, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.config.security.values import SecurityValues

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
