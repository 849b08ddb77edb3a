"""Detect replaced credentials.

Equal settings do not imply equal secrets, because `file:PATH`, keystores and keytabs are read again
for each login. `credentials_fingerprint` returns a value that changes when a referenced secret
changes. This value is only compared and never shown.
"""

from __future__ import annotations

import hmac
import os
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import ENVIRONMENT, FILE, Secret
from spark_kafka_sink.config.security.security_config import JaasLogin, KerberosLogin, SaslConfig
from spark_kafka_sink.kafka.security.changing_files import FileStamp, file_stamp
from spark_kafka_sink.kafka.security.credentials import resolve_login

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.security.security_config import Login, SecurityConfig

_Fingerprint: TypeAlias = FileStamp | bytes | None
"""The stamp of a file, or a digest of an environment variable or a ticket cache."""
CredentialsFingerprint = tuple[_Fingerprint, ...]
"""One entry per reference."""
_FILES = frozenset({"location", "keytab"})
"""Fields that contain the path of a file with a secret."""
_TICKET_CACHE = "KRB5CCNAME"
_TICKETS_START = 512
"""Number of bytes in which a ticket cache contains the principal and the start of its first ticket.
"""
_KEY = os.urandom(32)
"""Key of the digests. It is random, so that digests reveal nothing to other processes."""


def credentials_fingerprint(settings: SecurityConfig | Login) -> CredentialsFingerprint:
    """Return a fingerprint of all referenced secrets; if it is equal, the secrets are equal."""
    return tuple(_fingerprints(settings))


def _fingerprints(settings: object) -> Iterator[_Fingerprint]:
    if isinstance(settings, tuple):
        for setting in settings:
            yield from _fingerprints(setting)
        return
    if isinstance(settings, Secret):
        if settings.is_reference:
            yield _fingerprint_reference(settings.source)
        return
    if not is_dataclass(settings):
        return
    if isinstance(settings, KerberosLogin) and settings.keytab is None:
        yield _fingerprint_tickets(settings.ticket_cache or os.environ.get(_TICKET_CACHE, ""))
    if isinstance(settings, SaslConfig) and isinstance(settings.login, JaasLogin):
        yield from _fingerprints_in_jaas(settings)
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, str) and field.name in _FILES:
            yield file_stamp(value)
        else:
            yield from _fingerprints(value)


def _fingerprints_in_jaas(config: SaslConfig) -> Iterator[_Fingerprint]:
    """Yield the fingerprints of the references in a sasl.jaas.config that is itself a reference."""
    try:
        login = resolve_login(config)
    except ConfigError:  # The login raises the error later.
        yield None
    else:
        yield from _fingerprints(login)


def _fingerprint_tickets(cache: str) -> bytes:
    """Return a digest of a ticket cache's name and of the start of its file.

    The start of the file contains the principal and its ticket. Each login appends service tickets
    to the file, which do not change the digest.
    """
    try:
        with Path(cache.removeprefix("FILE:")).open("rb") as file:
            start = file.read(_TICKETS_START)
    except (OSError, ValueError):  # The cache is not a file, or the file is missing.
        start = b""
    return _digest(os.fsencode(cache) + b"\0" + start)


def _digest(value: bytes) -> bytes:
    return hmac.digest(_KEY, value, "sha256")  # Systems in FIPS mode have no BLAKE2.


def _fingerprint_reference(source: str) -> _Fingerprint:
    if source.startswith(FILE):
        return file_stamp(source.removeprefix(FILE))
    value = os.environ.get(source.removeprefix(ENVIRONMENT))
    return None if value is None else _digest(os.fsencode(value))
