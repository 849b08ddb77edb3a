"""Find the files that Spark ships to a host.

`--files` and `addFile` copy files into one folder on the driver and on each executor, without the
paths of the original folders. Each machine has a different path for its folder.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from spark_kafka_sink.common.secret import FILE, Secret
from spark_kafka_sink.config.security.security_config import JaasLogin

if TYPE_CHECKING:
    from collections.abc import Sequence


_PATHS = frozenset({"location", "keytab", "ticket_cache"})
"""Fields of `config.security.security_config` that contain a path."""
Settings = TypeVar("Settings")


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
