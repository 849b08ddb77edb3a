"""Recognize the Java classes in SASL options and in sasl.jaas.config."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_repr
from spark_kafka_sink.common.similar_names import MIN_TYPO_RATIO, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.config.security.security_values import SecurityValues

_BEARER = "org.apache.kafka.common.security.oauthbearer"
_AMAZON = "software.amazon.msk.auth.iam"
_CLIENT_HANDLERS = (
    "org.apache.kafka.common.security.authenticator.SaslClientCallbackHandler",
    f"{_BEARER}.internals.OAuthBearerSaslClientCallbackHandler",
    f"{_AMAZON}.IAMClientCallbackHandler",
    f"{_AMAZON}.IAMOAuthBearerLoginCallbackHandler",
)
_LOGIN_CLASSES = (
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

_CLASS_SIMILARITY = 0.9
"""Minimum similarity of a typo. Classes with the same ending are similar: difflib's ratio is 0.83
for `LdapLoginModule` and `IAMLoginModule`.
"""


class LoginHandler(Enum):
    """The source of an OAUTHBEARER token."""

    ISSUER = "an issuer or a file"
    UNSECURED = "created by the client"
    MSK_IAM = "signed with AWS's credentials"
    STRIMZI = "an issuer or a given token, with Strimzi's names"


_LOGIN_HANDLERS = {
    f"{_BEARER}.OAuthBearerLoginCallbackHandler": LoginHandler.ISSUER,
    f"{_BEARER}.secured.OAuthBearerLoginCallbackHandler": LoginHandler.ISSUER,
    f"{_BEARER}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler": (
        LoginHandler.UNSECURED
    ),
    f"{_AMAZON}.IAMOAuthBearerLoginCallbackHandler": LoginHandler.MSK_IAM,
    "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler": LoginHandler.STRIMZI,
}


def known_class(name: str, known: Iterable[str]) -> str | None:
    """Return the known class to which a name refers, or None.

    The name of a shaded class has a prefix, such as Databricks' kafkashaded.org.apache.kafka....
    """
    return next(
        (
            class_name
            for class_name in known
            if name == class_name or name.endswith(f".{class_name}")
        ),
        None,
    )


def did_you_mean_class(name: str, known: Iterable[str]) -> str | None:
    """Return a hint for a class name that has a typo or wrong case, or lacks its package."""
    by_short = {class_name.rpartition(".")[2]: class_name for class_name in known}
    package, _, short = name.rpartition(".")
    meant = nearest(short, by_short, _CLASS_SIMILARITY)
    if meant is None or (package and nearest(name, [by_short[meant]], MIN_TYPO_RATIO) is None):
        return None
    return f"Did you mean {by_short[meant]}?"


def login_handler(values: SecurityValues) -> LoginHandler | None:
    """Return the handler set in sasl.login.callback.handler.class, or None if it is not set.

    Raises:
        ConfigError: an option for a Java class contains an unknown class name.
    """
    _checked_class(values, "sasl.client.callback.handler.class", _CLIENT_HANDLERS)
    _checked_class(values, "sasl.login.class", _LOGIN_CLASSES)
    _reject_assertions(values)
    _checked_class(values, "sasl.oauthbearer.jwt.retriever.class", _RETRIEVERS)
    name = _checked_class(values, "sasl.login.callback.handler.class", _LOGIN_HANDLERS)
    return None if name is None else _LOGIN_HANDLERS[name]


def _reject_assertions(values: SecurityValues) -> None:
    option = "sasl.oauthbearer.jwt.retriever.class"
    if known_class(values.text(option) or "", _ASSERTIONS) is not None:
        raise ConfigError(
            f"option {values.name(option)} requires client assertions (jwt-bearer), which are not "
            "supported",
            hint="Use kafka.sasl.oauthbearer.client.credentials.client.id and .secret, or a token "
            "in a file, which is read at each login: "
            "kafka.sasl.oauthbearer.token.endpoint.url=file:///path.",
        )


def _checked_class(values: SecurityValues, option: str, known: Iterable[str]) -> str | None:
    name = values.text(option)
    if name is None:
        return None
    login_class = known_class(name, known)
    if login_class is None:
        raise ConfigError(
            f"option {values.name(option)} is {safe_repr(name)}, an unsupported Java class",
            hint=did_you_mean_class(name, known) or f"Supported: {', '.join(known)}.",
        )
    return login_class
