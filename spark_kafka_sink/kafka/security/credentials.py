"""Resolve a login's references, find files that Spark ships, and detect replaced credentials.

Shipped files: `--files` and `addFile` copy files into one folder on the driver and on each
executor, without the paths of the original folders. Each machine has a different path for its
folder.

Files that are being replaced: a certificate and its key are two files, and `cp` truncates a file
before writing to it. For a short time, a file can therefore be empty or incomplete, or not match
the other file. `retry_while_files_change` waits for the replacement to finish.

Fingerprints: equal settings do not imply equal secrets, because `file:PATH`, keystores and keytabs
are read again for each login. `credentials_fingerprint` returns a value that changes when a
referenced secret changes. This value is only compared and never shown.
"""

from __future__ import annotations

import hmac
import os
import socket
import time
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import shown_file
from spark_kafka_sink.common.secret import ENVIRONMENT, FILE, Secret
from spark_kafka_sink.config.security.security_config import JaasLogin, KerberosLogin, SaslConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from spark_kafka_sink.config.security.security_config import (
        KeyStore,
        Login,
        SecurityConfig,
        TrustStore,
    )


SETTLING_S = 5.0
"""Seconds to wait for files that are being replaced."""
RECENT_CHANGE_S = 60.0
"""Seconds after a file's last change in which related files might still be replaced."""
_CHECK_INTERVAL_S = 0.1

FileStamp = tuple[int, int, int, int, int]
"""Device, inode, size in bytes, and mtime and ctime in nanoseconds. ctime is needed because a file
that is moved to the path of another file keeps its mtime.
"""
FileStamps = tuple[FileStamp | None, ...]
Result = TypeVar("Result")
_PATHS = frozenset({"location", "keytab", "ticket_cache"})
"""Fields of `config.security.security_config` that contain a path."""
Settings = TypeVar("Settings")
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


def file_stamps(paths: Iterable[str]) -> FileStamps:
    """Return the current stamps of files, or None for a file that is missing."""
    return tuple(map(_file_stamp, paths))


def retry_while_files_change(
    paths: tuple[str, ...], attempt: Callable[[], Result], settling: float
) -> tuple[Result, FileStamps]:
    """Return the result of `attempt`, and the stamps of the files at its start.

    A failed attempt is repeated if the files are being replaced, for up to `settling` seconds.

    Raises:
        Exception: see `attempt`.
    """
    deadline = time.monotonic() + settling
    while True:
        stamps = file_stamps(paths)
        try:
            return attempt(), stamps
        except Exception:
            if not _change_follows(paths, stamps, deadline):
                raise


def _change_follows(paths: tuple[str, ...], seen: FileStamps, deadline: float) -> bool:
    """Wait until recently changed files change again. If no file is recent, do not wait.

    Args:
        paths: paths of the files.
        seen: stamps taken when the files could not be used.
        deadline: time limit in seconds of the monotonic clock.

    Returns:
        True if the files have changed and should be read again.
    """
    while _changed_recently(seen) and time.monotonic() < deadline:
        if file_stamps(paths) != seen:
            return True
        time.sleep(_CHECK_INTERVAL_S)
    return False


def _changed_recently(stamps: FileStamps) -> bool:
    since_ns = time.time_ns() - int(RECENT_CHANGE_S * 1e9)
    return any(stamp is not None and stamp[-1] > since_ns for stamp in stamps)


def _file_stamp(path: str) -> FileStamp | None:
    """Return the stamp of a file, or None if it is missing, which is an error when it is read."""
    try:
        status = os.stat(path)  # noqa: PTH116 - pathlib's normalizes the path first
    except (OSError, ValueError):  # A ValueError means that the path is invalid.
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def secrets_of(settings: TrustStore | KeyStore | Login) -> tuple[Secret, ...]:
    """Return the secrets of a store or a login that are set, without those of nested settings."""
    values = (getattr(settings, field.name) for field in fields(settings))
    return tuple(value for value in values if isinstance(value, Secret))


def locate_files(settings: Settings, folders: Sequence[Path]) -> Settings:
    """Return the settings with relative paths replaced by paths in one of the folders.

    A path that exists in the working directory is not changed. A path that is not found in any
    folder is not changed either, so that the error for the missing file is raised when the file is
    read, with the name of the option.

    Args:
        settings: frozen settings, such as a SecurityConfig.
        folders: folders to search for relative paths, in this order.
    """
    if isinstance(settings, Secret):
        return cast("Settings", _located_secret(settings, folders))
    if isinstance(settings, tuple):
        return cast("Settings", tuple(locate_files(setting, folders) for setting in settings))
    if not is_dataclass(settings) or isinstance(settings, type):
        return settings
    files = {
        field.name: _located_field(field.name, getattr(settings, field.name), folders)
        for field in fields(settings)
    }
    # The files of a `JaasLogin` are known only after its text has been read.
    if isinstance(settings, JaasLogin):
        files["folders"] = tuple(str(folder) for folder in folders)
    return replace(settings, **files)


def _located_field(name: str, value: object, folders: Sequence[Path]) -> object:
    if name in _PATHS and isinstance(value, str):
        return _located_path(value, folders)
    return locate_files(value, folders)


def _located_secret(secret: Secret, folders: Sequence[Path]) -> Secret:
    if secret.file is None:
        return secret
    return Secret(f"{FILE}{_located_path(secret.file, folders)}", secret.option)


def _located_path(path: str, folders: Sequence[Path]) -> str:
    if Path(path).is_absolute() or Path(path).exists():
        return path
    return next((str(folder / path) for folder in folders if (folder / path).exists()), path)


def resolve_login(config: SaslConfig) -> Login:
    """Return the login, with the paths of its files on this host.

    Raises:
        ConfigError: a reference cannot be resolved on this host, or the referenced text is not a
            valid login.
    """
    from spark_kafka_sink.config.security.sasl import resolve_references  # needed only for logins

    login = resolve_references(config)
    if not isinstance(config.login, JaasLogin):
        return login
    return locate_files(login, [Path(folder) for folder in config.login.folders])


def reveal_text(secret: Secret) -> str:
    """Return the text of a secret, which must not be empty.

    Raises:
        ConfigError: the secret cannot be found, is empty or not UTF-8, or ends with a line break.
    """
    text = utf8_text(secret)
    if not text:
        raise ConfigError(
            f"option {secret.option} is empty",
            hint="Set it, or write the text into the variable or file to which it refers.",
        )
    return text


def utf8_text(secret: Secret) -> str:
    """Return the text of a secret, which can be empty.

    Raises:
        ConfigError: the secret cannot be found, is not UTF-8, or ends with a line break, which is
            most likely a mistake in the file or the environment variable.
    """
    text = secret.reveal()
    try:
        text.encode()
    except UnicodeEncodeError:
        # An environment variable contains bytes that are not UTF-8. The cause is suppressed,
        # because it contains the secret.
        raise ConfigError(
            f"option {secret.option} is not UTF-8",
            hint="Set the environment variable to UTF-8 text, or use file:PATH.",
        ) from None
    if text.endswith(("\n", "\r")):
        how = "ends with a line break" if secret.file is None else _line_breaks_in(secret.file)
        raise ConfigError(
            f"option {secret.option} {how}",
            hint="Remove it: a line break would be part of the name or the password.",
        )
    return text


def _line_breaks_in(path: str) -> str:
    return (
        f"refers to {shown_file(path)}, which ends with more than one line break on "
        f"{socket.gethostname()}"
    )


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
            yield _file_stamp(value)
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
        return _file_stamp(source.removeprefix(FILE))
    value = os.environ.get(source.removeprefix(ENVIRONMENT))
    return None if value is None else _digest(os.fsencode(value))
