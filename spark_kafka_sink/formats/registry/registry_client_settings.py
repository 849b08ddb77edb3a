"""The settings of the registry's client: address, login and TLS."""

from __future__ import annotations

import os
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.security_config import (
    ClientCredentialsLogin,
    PasswordLogin,
    RefreshPolicy,
)
from spark_kafka_sink.kafka.security.credentials import resolve_login, reveal_text
from spark_kafka_sink.kafka.security.tokens.token_cache import TokenCache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import ExitStack

    from spark_kafka_sink.config.schema_registry import BearerAuth, RegistryConfig
    from spark_kafka_sink.config.security.security_config import SaslConfig, TlsConfig


def client_settings(
    config: RegistryConfig, sasl: SaslConfig | None, files: ExitStack
) -> dict[str, Any]:
    """Return the client's settings. `files` deletes the files to which they refer."""
    settings: dict[str, Any] = {
        "url": config.url,
        "timeout": config.timeout_ms / 1_000,
        "max.retries": config.max_retries,
        "retries.wait.ms": config.retries_wait_ms,
        "retries.max.wait.ms": config.retries_max_wait_ms,
    }
    user_info = _user_info(config, sasl)
    if user_info is not None:
        settings["basic.auth.user.info"] = user_info
    if config.bearer is not None:
        settings |= {
            "bearer.auth.credentials.source": "CUSTOM",
            "bearer.auth.custom.provider.function": _bearer_function(config.bearer, sasl),
            "bearer.auth.custom.provider.config": {},
        }
    if config.tls is not None:
        settings |= _tls_files(config.tls, files)
    return settings


def _user_info(config: RegistryConfig, sasl: SaslConfig | None) -> str | None:
    if config.inherits_basic:
        login = None if sasl is None else resolve_login(sasl)
        if not isinstance(login, PasswordLogin):
            raise ConfigError(
                "option basic.auth.credentials.source is SASL_INHERIT, but the brokers' login has "
                "no user name and password",
                hint="Set basic.auth.credentials.source=USER_INFO and basic.auth.user.info.",
            )
        return f"{reveal_text(login.username)}:{reveal_text(login.password)}"
    if config.user_info is None:
        return None
    text = reveal_text(config.user_info)
    if ":" not in text:
        raise ConfigError(
            f"option {config.user_info.option} has no colon", hint="Write it as NAME:PASSWORD."
        )
    return text


def _bearer_function(
    bearer: BearerAuth, sasl: SaslConfig | None
) -> Callable[[Mapping[str, Any]], dict[str, str]]:
    """Return the function that provides the client with a token for each request."""
    issuer = bearer.issuer
    if bearer.inherits:
        login = None if sasl is None else resolve_login(sasl)
        if not isinstance(login, ClientCredentialsLogin):
            raise ConfigError(
                "option bearer.auth.credentials.source is SASL_OAUTHBEARER_INHERIT, but the "
                "brokers' login has no OAuth issuer",
                hint="Set bearer.auth.credentials.source=OAUTHBEARER and the issuer.",
            )
        issuer = login
    token = partial(reveal_text, bearer.token) if issuer is None else _token_function(issuer)  # type: ignore[arg-type]
    scope = {"bearer.auth.logical.cluster": bearer.logical_cluster or ""}
    if bearer.identity_pool is not None:
        scope["bearer.auth.identity.pool.id"] = bearer.identity_pool
    return lambda _: {"bearer.auth.token": token(), **scope}


def _token_function(login: ClientCredentialsLogin) -> Callable[[], str]:
    """Return a function that provides a valid token of an issuer, after requesting the first."""
    # Requires the `oauth` extra.
    from spark_kafka_sink.kafka.security.tokens.client_credentials import ClientCredentialsSource

    cache, source, policy = TokenCache(), ClientCredentialsSource(login), RefreshPolicy()
    cache.token(source, policy)
    return lambda: cache.token(source, policy).value


def _tls_files(config: TlsConfig, files: ExitStack) -> dict[str, str]:
    """Return the TLS settings of the client, with the certificates in short-lived files."""
    from spark_kafka_sink.kafka.security.tls import client_context, stores  # only for TLS
    from spark_kafka_sink.kafka.security.tls.pem import encrypt_private_key

    settings: dict[str, str] = {}
    if config.truststore is not None:
        trusted = stores.trusted_certificates(config.truststore)
        text = "".join(map(ssl.DER_cert_to_PEM_cert, trusted)).encode()
        settings["ssl.ca.location"] = files.enter_context(client_context.short_lived_file(text))
    else:
        paths = ssl.get_default_verify_paths()
        if paths.cafile and os.access(paths.cafile, os.R_OK):
            settings["ssl.ca.location"] = paths.cafile
    if config.keystore is not None:
        identity = stores.client_identity(config.keystore)
        key, passphrase = encrypt_private_key(identity.key)
        chain = files.enter_context(client_context.short_lived_file(identity.chain_text() + key))
        settings |= {"ssl.certificate.location": chain, "ssl.key.password": passphrase}
    return settings
