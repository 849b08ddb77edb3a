"""The OAUTHBEARER login (KIP-768, KIP-1139): issuer, static token or unsecured token.

Without a callback handler, Java creates an unsecured token. In this sink, the options determine the
source of the token: an issuer's URL or an existing token requires no callback handler.

The TLS settings for the issuer can have Java's, Strimzi's or librdkafka's names. As in Java, they
are ssl.* options in sasl.jaas.config, not the client's own ssl.* options.
"""

from __future__ import annotations

import logging
import math
import re
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import unquote

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.logs import warn_once
from spark_kafka_sink.common.masking import has_credentials
from spark_kafka_sink.common.secret import FILE, Secret
from spark_kafka_sink.common.similar_names import MIN_TYPO_RATIO, nearest
from spark_kafka_sink.config.option_parser import parse_url
from spark_kafka_sink.config.security.java_classes import LoginHandler, login_handler
from spark_kafka_sink.config.security.security_config import (
    ClientCredentialsLogin,
    StoreType,
    TlsConfig,
    TokenLogin,
    TrustStore,
    UnsecuredTokenLogin,
)
from spark_kafka_sink.config.security.security_names import (
    IGNORED_SECURITY_KEYS,
    REJECTED_SECURITY_KEYS,
    SECURITY_NAMES,
)
from spark_kafka_sink.config.security.security_values import SecurityValues, parse_setting
from spark_kafka_sink.config.security.tls import ca_file, tls_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from urllib.parse import SplitResult

    from spark_kafka_sink.config.security.jaas import JaasOptions


_STRIMZI = "oauth."
_SSL_NAMES = frozenset(name for name in SECURITY_NAMES if name.startswith("ssl."))
_AUTHORITIES = ("ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location")
_TRUSTSTORE_TYPE = "ssl.truststore.type"
_CLAIMS = "unsecuredLogin"
"""Prefix of all options of this login."""
_STRING = "unsecuredLoginStringClaim_"
_NUMBER = "unsecuredLoginNumberClaim_"
_LIST = "unsecuredLoginListClaim_"
_UNSECURED_EXTENSION = "unsecuredLoginExtension_"
_LIFETIME = "unsecuredLoginLifetimeSeconds"
_PRINCIPAL = "unsecuredLoginPrincipalClaimName"
_Extensions = tuple[tuple[str, str], ...]
BearerLogin = TokenLogin | ClientCredentialsLogin | UnsecuredTokenLogin
_URL = "sasl.oauthbearer.token.endpoint.url"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 a name
_EXTENSION = "extension_"
_STRIMZI_TOKEN = "oauth.access.token"  # noqa: S105 a name
_STRIMZI_FILE = "oauth.access.token.location"
_STRIMZI_URL = "oauth.token.endpoint.uri"
_STRIMZI_EXTENSION = "oauth.sasl.extension."
_STRIMZI_USED = (
    "oauth.access.token",
    "oauth.access.token.location",
    "oauth.audience",
    "oauth.client.id",
    "oauth.client.secret",
    "oauth.connect.timeout.seconds",
    "oauth.read.timeout.seconds",
    "oauth.scope",
    "oauth.token.endpoint.uri",
)
_STRIMZI_REJECTED = (
    "oauth.refresh.token",
    "oauth.refresh.token.location",
    "oauth.client.assertion",
    "oauth.client.assertion.location",
    "oauth.password.grant.username",
)
_URL_OF_RETRIEVER = {
    "ClientCredentialsJwtRetriever": "https://...",
    "FileJwtRetriever": "file:///path",
}
"""The kind of URL that a retriever supports; DefaultJwtRetriever supports both."""
_TIMEOUT_MS = 10_000
"""Default timeout in milliseconds. Java has no default timeout and waits forever."""
_NAME = re.compile(r"[A-Za-z]+")
UNKNOWN_OPTION = "%s has an unknown option, which is ignored: did you mean %s?"
"""The line about a login module's option that is likely misspelled."""
_LOG = logging.getLogger(__name__)
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")


def _issuer_tls(values: SecurityValues, options: JaasOptions) -> TlsConfig | None:
    """Return the TLS settings for the issuer, or None to trust the system's authorities.

    Raises:
        ConfigError: see `tls_config`. Also raised if the authorities are set more than once.
    """
    spellings = {
        name.removeprefix(_STRIMZI): options.name(name)
        for name in options.options
        if name.removeprefix(_STRIMZI).startswith("ssl.")
    }
    strimzi = _STRIMZI if options.with_prefix(f"{_STRIMZI}ssl.") else ""
    _check_ssl_names(spellings, options, strimzi)
    tls_values = options.with_prefix("") | options.with_prefix(_STRIMZI)
    module = SecurityValues(
        {
            name: parse_setting(name, tls_values[name], spellings[name])
            for name in spellings
            if name in _SSL_NAMES
        },
        {name: options.name(f"{strimzi}{name}") for name in _SSL_NAMES} | spellings,
    )
    sources = [
        any(map(module.is_set, _AUTHORITIES)),
        values.is_set("https.ca.location"),
        values.is_set("https.ca.pem"),
    ]
    if sum(sources) > 1:
        raise ConfigError(
            "the issuer's certificate authorities are set in two places",
            hint="Remove all but one: kafka.https.ca.location, kafka.https.ca.pem, or ssl.* "
            f"options in {options.option_name}.",
        )
    certificates = values.secret("https.ca.pem") or ca_file(values, "https.ca.location")
    if certificates is None:
        return tls_config(module) if module.values else None
    # With https.ca.*, the type of a truststore that is not set has no meaning.
    settings = {name: value for name, value in module.values.items() if name != _TRUSTSTORE_TYPE}
    truststore = TrustStore(type=StoreType.PEM, certificates=certificates)
    return replace(tls_config(replace(module, values=settings)), truststore=truststore)


def _check_ssl_names(spellings: Mapping[str, str], options: JaasOptions, prefix: str) -> None:
    """Treat ssl.* options of a login module like the client's: Java reads the same names.

    An unknown option has no effect, as in Java; a likely typo is logged.
    """
    for name, option in spellings.items():
        if name in REJECTED_SECURITY_KEYS:
            raise ConfigError(f"{option} is not supported", hint=f"{REJECTED_SECURITY_KEYS[name]}.")
        if name in IGNORED_SECURITY_KEYS:
            warn_once(_LOG, "Option %s is not supported and has no effect", option)
        elif name not in _SSL_NAMES and (meant := nearest(name, _SSL_NAMES, MIN_TYPO_RATIO)):
            warn_once(_LOG, UNKNOWN_OPTION, options.option_name, f"{prefix}{meant}")


def _unsecured_token_login(
    options: JaasOptions, extensions: tuple[tuple[str, str], ...]
) -> UnsecuredTokenLogin:
    """Build the login with an unsecured token, from the claims in the login module.

    Raises:
        ConfigError: the claim that identifies the client is missing, or a number is invalid.
    """
    claims: dict[str, str | float | tuple[str, ...]] = {}
    claims |= options.with_prefix(_STRING)
    for name, text in options.with_prefix(_NUMBER).items():
        claims[name] = _finite_number(options, f"{_NUMBER}{name}", text)
    for name, text in options.with_prefix(_LIST).items():
        # The first character is the separator, as in "|one|two".
        claims[name] = tuple(text[1:].split(text[0])) if text else ()
    principal = options.text(_PRINCIPAL) or "sub"
    if not str(claims.get(principal, "")).strip():
        raise ConfigError(
            f"{options.option_name} lacks the claim {principal}, which identifies the client",
            hint=f'Add {_STRING}{principal}="name"; such a token is for development only. '
            "For a token from an issuer, set kafka.sasl.oauthbearer.token.endpoint.url.",
        )
    lifetime = _finite_number(options, _LIFETIME, options.text(_LIFETIME) or "3600")
    return UnsecuredTokenLogin(
        claims=tuple(sorted(claims.items())), lifetime_seconds=int(lifetime), extensions=extensions
    )


def _finite_number(options: JaasOptions, name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(
            f"{options.name(name)} is not a number", hint="Set it to a number, such as 3600."
        )
    return number


def oauthbearer_login(values: SecurityValues, options: JaasOptions) -> BearerLogin:
    """Build the login: a token from an issuer, a file or the options, or an unsecured token.

    Raises:
        ConfigError: no token source is set, or a setting that the source requires is missing.
    """
    handler = login_handler(values)
    _warn_unused(options)
    _check_retriever(values)
    extensions = _sasl_extensions(values, options)
    token = _static_token(values, options)
    if token is not None:
        return TokenLogin(token=token, extensions=extensions)
    url = values.text(_URL) or options.text(_STRIMZI_URL)
    if url is None and (handler is LoginHandler.UNSECURED or options.with_prefix(_CLAIMS)):
        return _unsecured_token_login(options, _sasl_extensions(values, options, unsecured=True))
    if url is None:
        raise ConfigError(
            f"option {values.name('sasl.mechanism')} is OAUTHBEARER, which requires a token",
            hint=f"Set {values.name(_URL)} to the issuer's URL, or to file:///path of a token.",
        )
    return _from_issuer(values, options, url, extensions)


def _warn_unused(options: JaasOptions) -> None:
    """Warn about Strimzi's options that have no effect, such as the number of HTTP retries."""
    prefixes = (_STRIMZI_EXTENSION, f"{_STRIMZI}ssl.")
    for name in sorted(options.options.keys() - set(_STRIMZI_USED)):
        if name.startswith(_STRIMZI) and not name.startswith(prefixes):
            warn_once(_LOG, "Option %s is not supported and has no effect", options.name(name))


def _static_token(values: SecurityValues, options: JaasOptions) -> Secret | None:
    """Return the token or a reference to its file, from Java's URL option or Strimzi's options."""
    for name in _STRIMZI_REJECTED:
        if options.text(name) is not None:
            raise ConfigError(
                f"{options.name(name)} is not supported",
                hint="Set oauth.client.id and oauth.client.secret, or oauth.access.token.",
            )
    path = options.text(_STRIMZI_FILE)
    if path is not None:
        return Secret(f"{FILE}{path}", options.name(_STRIMZI_FILE))
    url = _url_of_file(values)
    if url is not None:
        return Secret(f"{FILE}{unquote(url.path)}", values.name(_URL))
    return options.secret(_STRIMZI_TOKEN)


def _url_of_file(values: SecurityValues) -> SplitResult | None:
    url = parse_url(values.text(_URL) or "")
    return url if url.scheme.lower() == "file" else None


def _check_retriever(values: SecurityValues) -> None:
    """Raise if the class of the token's retriever does not support the kind of the URL."""
    retriever = (values.text(_RETRIEVER) or "").rpartition(".")[2]
    required = "https://..." if _url_of_file(values) is None else "file:///path"
    if values.text(_URL) and _URL_OF_RETRIEVER.get(retriever, required) != required:
        raise ConfigError(
            f"option {values.name(_RETRIEVER)} is {retriever}, which does not support "
            f"{values.name(_URL)}={required}",
            hint=f"Remove {values.name(_RETRIEVER)}: the URL selects the retriever.",
        )


def _from_issuer(
    values: SecurityValues, options: JaasOptions, url: str, extensions: _Extensions
) -> ClientCredentialsLogin:
    _check_url(url, values.name(_URL) if values.is_set(_URL) else options.name(_STRIMZI_URL))
    return ClientCredentialsLogin(
        token_endpoint_url=url,
        client_id=_client_credential(values, options, _CLIENT_ID, "clientId", "oauth.client.id"),
        client_secret=_client_credential(
            values, options, _CLIENT_SECRET, "clientSecret", "oauth.client.secret"
        ),
        scope=values.text("sasl.oauthbearer.scope")
        or options.text("scope")
        or options.text("oauth.scope"),
        audience=options.text("oauth.audience"),
        extensions=extensions,
        header_urlencode=values.flag("sasl.oauthbearer.header.urlencode"),
        connect_timeout_ms=_timeout_ms(values, options, "connect"),
        read_timeout_ms=_timeout_ms(values, options, "read"),
        retry_backoff_ms=values.number("sasl.login.retry.backoff.ms") or 0,
        retry_backoff_max_ms=values.number("sasl.login.retry.backoff.max.ms") or 0,
        tls=_issuer_tls(values, options),
    )


def _timeout_ms(values: SecurityValues, options: JaasOptions, action: str) -> int:
    """Return a timeout of the issuer, from Java's option in ms or Strimzi's option in seconds."""
    strimzi = f"{_STRIMZI}{action}.timeout.seconds"
    seconds = _finite_number(options, strimzi, options.text(strimzi) or "0")
    return values.number(f"sasl.login.{action}.timeout.ms") or int(seconds * 1000) or _TIMEOUT_MS


def _check_url(url: str, option: str) -> None:
    parts = parse_url(url)
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"option {option} is not the URL of an OAuth issuer",
            hint="Use https://..., or file:///path for a file that contains a token.",
        )
    if has_credentials(url):
        raise ConfigError(
            f"option {option} contains credentials",
            hint=f"Set the credentials with kafka.{_CLIENT_ID} and kafka.{_CLIENT_SECRET}.",
        )
    if parts.scheme.lower() == "http" and not _is_loopback(parts.hostname):
        warn_once(
            _LOG,
            "Option %s starts with http://: client id, secret and tokens are exchanged unencrypted "
            "with %s",
            option,
            parts.hostname,
        )


def _is_loopback(host: str) -> bool:
    """Return True for a name (RFC 6761) or address of the local host."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _client_credential(
    values: SecurityValues, options: JaasOptions, option: str, *jaas: str
) -> Secret:
    """Return a credential. As in Java, the option overrides the login module (KIP-1139)."""
    sources = (values.secret(option), *map(options.secret, jaas))
    named_secret = next(
        (secret for secret in sources if secret is not None and secret.source), None
    )
    if named_secret is None:
        raise ConfigError(
            f"option {values.name(_URL)} is set, which requires {values.name(option)}",
            hint=f"Set it, or {options.name(jaas[0])}; use env:NAME or file:PATH to keep the value "
            "out of the options.",
        )
    return named_secret


def _sasl_extensions(
    values: SecurityValues, options: JaasOptions, *, unsecured: bool = False
) -> _Extensions:
    """Return the SASL extensions (KIP-342), from the login module (Java) or librdkafka's option.

    Raises:
        ConfigError: an extension cannot be sent, or has two values.
    """
    extensions = options.with_prefix(_EXTENSION) | options.with_prefix(_STRIMZI_EXTENSION)
    option = "sasl.oauthbearer.extensions"
    for pair in filter(None, (values.text(option) or "").split(",")):
        name, _, value = map(str.strip, pair.partition("="))
        if extensions.setdefault(name, value) != value:
            raise ConfigError(
                f"{options.option_name} or {values.name(option)} sets an extension to two values",
                hint="Remove one of them.",
            )
    if unsecured:
        extensions |= options.with_prefix(_UNSECURED_EXTENSION)
    for name, value in extensions.items():
        if name == "auth" or not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise ConfigError(
                f"{options.option_name} or {values.name(option)} has an invalid SASL extension",
                hint="Use names of letters, except auth, and non-empty values of printable ASCII.",
            )
    return tuple(sorted(extensions.items()))
