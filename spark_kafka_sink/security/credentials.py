"""Resolve a login's references and detect replaced credentials.

Files that somebody is replacing: for a moment one is empty, half written, or fits no other.

A certificate and its key are two files, and `cp` empties one before it writes it.

What the references among the security settings lead to now, to be compared and never shown.

Equal settings need not mean equal secrets: `file:PATH`, key stores and keytabs are read anew.
"""

from __future__ import annotations

import os
import socket
import time
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import ENVIRONMENT, FILE, Secret
from spark_kafka_sink.common.text import shown_file
from spark_kafka_sink.config.security.model import JaasLogin, KerberosLogin, SaslConfig
from spark_kafka_sink.config.security.sasl import resolve
from spark_kafka_sink.security.shipped_files import located

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from spark_kafka_sink.config.security.model import Login, SecurityConfig


SETTLING_S = 5.0
"""Seconds to wait for files that are being replaced."""
JUST_NOW_S = 60.0
"""A file that changed within so many seconds may be one of several that are being replaced."""
_LOOK_EVERY_S = 0.1

FileStamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, time of the last change of the content, and of any, both in
nanoseconds: a file that is moved to another one's place brings an old time of the first kind."""
Stamps = tuple[FileStamp | None, ...]


def stamps_of(paths: Iterable[str]) -> Stamps:
    """How the files are now; None for one that is not there."""
    return tuple(map(_stamp, paths))


def change_follows(paths: tuple[str, ...], seen: Stamps, deadline: float) -> bool:
    """Wait until files that were replaced just now change again; any file that is old is final.

    Args:
        paths: of the files.
        seen: as they were when they were of no use.
        deadline: by the monotonic clock, in seconds.

    Returns:
        Whether they have changed, so that it makes sense to read them again.
    """
    while _changed_just_now(seen) and time.monotonic() < deadline:
        if stamps_of(paths) != seen:
            return True
        time.sleep(_LOOK_EVERY_S)
    return False


def _changed_just_now(stamps: Stamps) -> bool:
    since_ns = time.time_ns() - int(JUST_NOW_S * 1e9)
    return any(stamp is not None and stamp[-1] > since_ns for stamp in stamps)


def _stamp(path: str) -> FileStamp | None:
    try:
        found = Path(path).stat()
    except (OSError, ValueError):  # ValueError: no path
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def resolved_login(config: SaslConfig) -> Login:
    """The login, with the paths of the files that it names.

    Raises:
        ConfigError: a reference leads nowhere on this host, or to something that is no login.
    """
    login = resolve(config)
    if not isinstance(config.login, JaasLogin):
        return login
    return located(login, [Path(folder) for folder in config.login.folders])


def revealed(secret: Secret) -> str:
    """A secret's text, which must be there, be UTF-8, and not end with a line break.

    Raises:
        ConfigError: it can't be found, is empty, has what no UTF-8 text can have, or ends so.
    """
    text = utf8_text(secret)
    if not text:
        raise ConfigError(f"option {secret.option} is empty")
    return text


def utf8_text(secret: Secret) -> str:
    """A secret's text, which may be empty, must be UTF-8, and not end with a line break.

    Raises:
        ConfigError: it can't be found, has what no UTF-8 text can have, or ends so: a name or a
            password that does is a mistake of whoever wrote the file or the variable.
    """
    text = secret.reveal()
    try:
        text.encode()
    except UnicodeEncodeError:
        # Environment variables of bytes that are not UTF-8. No cause: it holds the text.
        raise ConfigError(f"option {secret.option} is not UTF-8") from None
    if text.endswith(("\n", "\r")):
        raise ConfigError(
            f"option {secret.option} "
            + ("ends with a line break" if secret.file is None else _of_file(secret.file)),
            hint="Write it without: a line break would be part of the name or the password.",
        )
    return text


def _of_file(path: str) -> str:
    return (
        f"names {shown_file(path)}, which ends with more than one line break on "
        f"{socket.gethostname()}"
    )


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
            yield _stamp_of_file(value)
        else:
            yield from _stamps(value)


def _in_jaas(config: SaslConfig) -> Iterator[tuple[int, int, int] | bytes | None]:
    """Of the references in a text that is itself behind one."""
    # Plaintext has no use for it.

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
        return _stamp_of_file(source.removeprefix(FILE))
    value = os.environ.get(source.removeprefix(ENVIRONMENT))
    return None if value is None else _digest(os.fsencode(value))


def _stamp_of_file(path: str) -> tuple[int, int, int] | None:
    """None where there is no such file: whoever reads it says so."""
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib's normalises the path first
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
