"""Find the files that options name: in the working directory, or among the files Spark ships.

`--files` and `addFile` put a file, under its name without folders, into one folder on the driver
and on each executor. Its path is known only on that machine.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from spark_kafka_sink.common.secret import FILE, Secret
from spark_kafka_sink.config.security.model import JaasLogin

if TYPE_CHECKING:
    from collections.abc import Sequence

PATHS = frozenset({"location", "keytab", "ticket_cache"})
"""Fields of `config.security.model` that hold a path."""

Settings = TypeVar("Settings")


def located(settings: Settings, folders: Sequence[Path]) -> Settings:
    """Return the settings with relative paths replaced by paths in one of the folders.

    A path that exists in the working directory is kept, and so is one that is found nowhere:
    reading the file reports the error, which names the option.

    Args:
        settings: any of the frozen settings, such as a SecurityConfig.
        folders: folders to search for relative paths, in this order.
    """
    if isinstance(settings, Secret):
        return cast(Settings, _secret(settings, folders))
    if isinstance(settings, tuple):
        return cast(Settings, tuple(located(each, folders) for each in settings))
    if not is_dataclass(settings) or isinstance(settings, type):
        return settings
    found = {
        each.name: _field(each.name, getattr(settings, each.name), folders)
        for each in fields(settings)
    }
    if isinstance(settings, JaasLogin):  # its files are known only after it has been read
        found["folders"] = tuple(str(folder) for folder in folders)
    return replace(settings, **found)


def _field(name: str, value: object, folders: Sequence[Path]) -> object:
    if name in PATHS and isinstance(value, str):
        return _path(value, folders)
    return located(value, folders)


def _secret(secret: Secret, folders: Sequence[Path]) -> Secret:
    if secret.file is None:
        return secret
    return Secret(f"{FILE}{_path(secret.file, folders)}", secret.option)


def _path(path: str, folders: Sequence[Path]) -> str:
    if Path(path).is_absolute() or Path(path).exists():
        return path
    return next((str(each / path) for each in folders if (each / path).exists()), path)
