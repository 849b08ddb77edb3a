"""What the references among the security settings lead to now, to be compared and never shown.

Equal settings need not mean equal secrets: `file:PATH`, key stores and keytabs are read anew.
"""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import ENVIRONMENT, FILE, Secret
from spark_kafka_sink.config.security.model import JaasLogin, KerberosLogin, SaslConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.security.model import Login, SecurityConfig

Stamp = tuple[tuple[int, int, int] | bytes | None, ...]
"""One entry per reference: time of change, size and inode of a file, or a digest of a variable or
a ticket cache."""

_FILES = frozenset({"location", "keytab"})
"""Fields that hold the path of a file with a secret in it."""
_TICKET_CACHE = "KRB5CCNAME"
_TICKETS_START = 512
"""Bytes that hold a ticket cache's principal and the beginning of its first ticket."""
_KEY = os.urandom(32)
"""Of this process: outside of it a digest says nothing."""


def credentials_stamp(settings: SecurityConfig | Login) -> Stamp:
    """Changes whenever what a reference leads to does; equal stamps mean the same secrets."""
    return tuple(_stamps(settings))


def _stamps(settings: object) -> Iterator[tuple[int, int, int] | bytes | None]:
    if isinstance(settings, tuple):
        for each in settings:
            yield from _stamps(each)
        return
    if isinstance(settings, Secret):
        if settings.is_reference:
            yield _of_reference(settings.source)
        return
    if not is_dataclass(settings):
        return
    if isinstance(settings, KerberosLogin) and settings.keytab is None:
        yield _of_tickets(settings.ticket_cache or os.environ.get(_TICKET_CACHE, ""))
    if isinstance(settings, SaslConfig) and isinstance(settings.login, JaasLogin):
        yield from _in_jaas(settings)
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, str) and field.name in _FILES:
            yield _of_file(value)
        else:
            yield from _stamps(value)


def _in_jaas(config: SaslConfig) -> Iterator[tuple[int, int, int] | bytes | None]:
    """Of the references in a text that is itself behind one."""
    # Plaintext has no use for it.
    from spark_kafka_sink.security.resolved_login import resolved_login

    try:
        login = resolved_login(config)
    except ConfigError:  # whoever logs in says so
        yield None
    else:
        yield from _stamps(login)


def _of_tickets(cache: str) -> bytes:
    """Of a cache's name, and of the start of its file, where the principal and its ticket are.

    Tickets for services are appended to it by each login, and change nothing.
    """
    try:
        with Path(cache.removeprefix("FILE:")).open("rb") as file:
            start = file.read(_TICKETS_START)
    except (OSError, ValueError):  # of another kind, or not there
        start = b""
    return _digest(os.fsencode(cache) + b"\0" + start)


def _digest(value: bytes) -> bytes:
    return blake2b(value, key=_KEY, digest_size=32).digest()


def _of_reference(source: str) -> tuple[int, int, int] | bytes | None:
    if source.startswith(FILE):
        return _of_file(source.removeprefix(FILE))
    value = os.environ.get(source.removeprefix(ENVIRONMENT))
    return None if value is None else _digest(os.fsencode(value))


def _of_file(path: str) -> tuple[int, int, int] | None:
    """None where there is no such file: whoever reads it says so."""
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib's normalises the path first
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
