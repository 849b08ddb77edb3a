"""Let Spark's Python workers import PySpark from its folder instead of `pyspark.zip`.

Spark puts `pyspark.zip` first in the Python path of its workers. The archive contains only source
files, which Python compiles again in each worker daemon. The same PySpark is usually installed
beside it as a folder with compiled files.

`spark_kafka_sink_workers.pth` calls `use_installed_pyspark` while Python starts, in processes whose
last argument is a module of PySpark. This module is not part of the package so that these processes
do not import the package.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from zipimport import zipimporter

KEEP_ARCHIVE = "KAFKAPROD_KEEP_PYSPARK_ZIP"
"""Environment variable. If it is 1, workers import PySpark from the archive."""
_FACTORY = "PYTHON_WORKER_FACTORY_"
"""Prefix of variables that only Python workers have. Source: Spark's `PythonWorkerFactory`."""


def use_installed_pyspark() -> None:
    """Change `sys.path` if this process is a Python worker of Spark. Never raises."""
    try:
        worker = any(name.startswith(_FACTORY) for name in os.environ)
        if worker and os.environ.get(KEEP_ARCHIVE, "0") in {"", "0"}:
            sys.path[:] = without_archives(sys.path)
    except Exception:  # noqa: BLE001, S110 - PySpark is then imported from the archive
        pass


def without_archives(path: list[str]) -> list[str]:
    """Return a Python path with the folders of PySpark and Py4J instead of their archives.

    An archive is replaced only if the folder is part of the same installation and has the same
    release.

    Raises:
        OSError: an archive or a folder cannot be read.
    """
    archive = next((entry for entry in path if Path(entry).name == "pyspark.zip"), None)
    if archive is None:
        return path
    home = Path(archive).parents[2]
    if not (home / "__init__.py").is_file():
        return _with_distribution(path, archive, home / "python")
    path = _without(path, archive, home)
    for py4j in Path(archive).parent.glob("py4j-*.zip"):
        path = _without(path, str(py4j), home.parent / "py4j")
    return path


def _with_distribution(path: list[str], archive: str, folder: Path) -> list[str]:
    """Replace the archive by the folder of a Spark distribution, which contains only PySpark.

    A distribution contains Py4J only as an archive.
    """
    if not _is_same_release(archive, folder / "pyspark"):
        return path
    return [str(folder) if entry == archive else entry for entry in path]


def _without(path: list[str], archive: str, folder: Path) -> list[str]:
    """Remove an archive if its package is then imported from the folder that pip installed."""
    rest = [entry for entry in path if entry != archive]
    found = PathFinder.find_spec(folder.name, rest)
    if found is None or found.origin is None:
        return path
    is_next = Path(found.origin).parent.samefile(folder)
    return rest if is_next and _is_same_release(archive, folder) else path


def _is_same_release(archive: str, folder: Path) -> bool:
    packed = zipimporter(archive).get_data(f"{folder.name}/version.py")
    return packed == (folder / "version.py").read_bytes()
