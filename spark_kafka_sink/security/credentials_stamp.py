"""What the references among the security settings lead to now, to be compared and never shown.

Equal settings need not mean equal secrets: `file:PATH`, key stores and keytabs are read anew.
"""

from __future__ import annotations

import os
from dataclasses import fields, is_dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING

from spark_kafka_sink.common.secret import ENVIRONMENT, FILE, Secret

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.config.security.model import Login, SecurityConfig

Stamp = tuple[tuple[int, int, int] | bytes | None, ...]
"""One entry per reference: time of change, size and inode of a file, or a digest of a variable."""

_FILES = frozenset({"location", "keytab"})
"""Fields that hold the path of a file with a secret in it."""
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
    for field in fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, str) and field.name in _FILES:
            yield _of_file(value)
        else:
            yield from _stamps(value)


def _of_reference(source: str) -> tuple[int, int, int] | bytes | None:
    if source.startswith(FILE):
        return _of_file(source.removeprefix(FILE))
    value = os.environ.get(source.removeprefix(ENVIRONMENT))
    return None if value is None else blake2b(value.encode(), key=_KEY, digest_size=32).digest()


def _of_file(path: str) -> tuple[int, int, int] | None:
    """None where there is no such file: whoever reads it says so."""
    try:
        found = os.stat(path)  # noqa: PTH116 - pathlib's normalises the path first
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
