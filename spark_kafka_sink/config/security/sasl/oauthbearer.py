"""OAUTHBEARER's login: where the token comes from, and what goes with it (KIP-768, KIP-1139).

Java's default without a callback handler is a token that nobody signed; here an issuer's URL or a
token that is given says enough.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from spark_kafka_sink.common.credentials import has_credentials
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import FILE, Secret
from spark_kafka_sink.config.security.model import (
    ClientCredentialsLogin,
    TokenLogin,
    UnsecuredTokenLogin,
)
from spark_kafka_sink.config.security.sasl.issuer_tls import issuer_tls
from spark_kafka_sink.config.security.sasl.java_classes import LoginHandler, login_handler
from spark_kafka_sink.config.security.sasl.unsecured_token import CLAIMS, unsecured_token_login

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.sasl.jaas import JaasOptions
    from spark_kafka_sink.config.security.values import SecurityValues

Extensions = tuple[tuple[str, str], ...]
BearerLogin = TokenLogin | ClientCredentialsLogin | UnsecuredTokenLogin

_URL = "sasl.oauthbearer.token.endpoint.url"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 a name
_EXTENSION = "extension_"
_STRIMZI_TOKEN = "oauth.access.token"  # noqa: S105 a name
_STRIMZI_FILE = "oauth.access.token.location"
_STRIMZI_URL = "oauth.token.endpoint.uri"
_STRIMZI_REFUSED = (
    "oauth.refresh.token",
    "oauth.refresh.token.location",
    "oauth.client.assertion",
    "oauth.client.assertion.location",
    "oauth.password.grant.username",
)
TIMEOUT_MS = 10_000
"""Where Java, without a time, waits for ever."""
_NAME = re.compile(r"[A-Za-z]+")
_LOG = logging.getLogger(__name__)
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


def oauthbearer_login(values: SecurityValues, options: JaasOptions) -> BearerLogin:
    """A token from an issuer, a file or the options themselves; or an unsecured one.

    Raises:
        ConfigError: nothing says where the token comes from, or something for that is missing.
    """
    handler = login_handler(values)
    extensions = _extensions(values, options)
    token = _given_token(values, options)
    if token is not None:
        return TokenLogin(token=token, extensions=extensions)
    url = values.text(_URL) or options.text(_STRIMZI_URL)
    if url is None and (handler is LoginHandler.UNSECURED or options.beginning(CLAIMS)):
        return unsecured_token_login(options, extensions)
    if url is None:
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is OAUTHBEARER, which needs a token",
            hint=f"Set {values.name(_URL)} to the issuer's URL, or to file:///path of a token.",
        )
    return _from_issuer(values, options, url, extensions)


def _given_token(values: SecurityValues, options: JaasOptions) -> Secret | None:
    """The token itself, or the file of it: by Java's file URL or by Strimzi's names."""
    for name in _STRIMZI_REFUSED:
        if options.text(name) is not None:
            raise ConfigError(
                f"{options.name(name)} is not supported",
                hint="Give oauth.client.id and oauth.client.secret, or oauth.access.token.",
            )
    path = options.text(_STRIMZI_FILE)
    if path is not None:
        return Secret(f"{FILE}{path}", options.name(_STRIMZI_FILE))
    url = urlsplit(values.text(_URL) or "")
    if url.scheme.lower() == "file":
        return Secret(f"{FILE}{unquote(url.path)}", values.name(_URL))
    return options.secret(_STRIMZI_TOKEN)


def _from_issuer(
    values: SecurityValues, options: JaasOptions, url: str, extensions: Extensions
) -> ClientCredentialsLogin:
    _check_url(url, values.name(_URL) if values.given(_URL) else options.name(_STRIMZI_URL))
    return ClientCredentialsLogin(
        token_endpoint_url=url,
        client_id=_credential(values, options, _CLIENT_ID, "clientId", "oauth.client.id"),
        client_secret=_credential(
            values, options, _CLIENT_SECRET, "clientSecret", "oauth.client.secret"
        ),
        scope=values.text("sasl.oauthbearer.scope")
        or options.text("scope")
        or options.text("oauth.scope"),
        extensions=extensions,
        header_urlencode=values.flag("sasl.oauthbearer.header.urlencode"),
        connect_timeout_ms=values.number("sasl.login.connect.timeout.ms") or TIMEOUT_MS,
        read_timeout_ms=values.number("sasl.login.read.timeout.ms") or TIMEOUT_MS,
        retry_backoff_ms=values.number("sasl.login.retry.backoff.ms") or 0,
        retry_backoff_max_ms=values.number("sasl.login.retry.backoff.max.ms") or 0,
        tls=issuer_tls(values, options),
    )


def _check_url(url: str, option: str) -> None:
    parts = urlsplit(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"option {option} is no URL of an issuer",
            hint="It begins with https://, or with file:/// for a file that holds a token.",
        )
    if has_credentials(url):
        raise ConfigError(
            f"option {option} holds credentials",
            hint=f"Give them as kafka.{_CLIENT_ID} and kafka.{_CLIENT_SECRET}.",
        )
    if parts.scheme.lower() == "http" and not _is_loopback(parts.hostname):
        warn_unencrypted(option, parts.hostname)


def _is_loopback(host: str) -> bool:
    """Whether what is sent to a host stays on this one (RFC 6761 for the name)."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@cache
def warn_unencrypted(option: str, host: str) -> None:
    """Say once per process that whoever listens on the way to an issuer gets the secret."""
    _LOG.warning(
        "Option %s begins with http://: client id, secret and tokens go to and from %s unencrypted",
        option,
        host,
    )


def _credential(values: SecurityValues, options: JaasOptions, option: str, *jaas: str) -> Secret:
    """As in Java the option wins over what the login module has (KIP-1139)."""
    places = (values.secret(option), *map(options.secret, jaas))
    found = next((place for place in places if place is not None and place.source), None)
    if found is None:
        raise ConfigError(
            f"option {values.name(_URL)} names an issuer, which needs {values.name(option)}",
            hint=f"Set it, or {options.name(jaas[0])}; env:NAME and file:PATH keep it out of the "
            "options.",
        )
    return found


def _extensions(values: SecurityValues, options: JaasOptions) -> Extensions:
    """Java has them in the login module, librdkafka in an option (KIP-342)."""
    found = options.beginning(_EXTENSION)
    option = "sasl.oauthbearer.extensions"
    for pair in filter(None, (values.text(option) or "").split(",")):
        name, _, value = pair.partition("=")
        found[name.strip()] = value.strip()
    for name, value in found.items():
        if name == "auth" or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError(
                f"{options.place} or {values.name(option)} has a SASL extension that can't be sent",
                hint="Names are of letters, but not auth; values of printable ASCII, not empty.",
            )
    return tuple(sorted(found.items()))
