"""Sizes of folders, files and functions: `python -m tools.checks.sizes` names the too large.

Paths may be named; folders are then judged by the files under these paths alone.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MAX_FOLDER_FILES = 16
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = ("spark_kafka_sink", "tests", "tools", "pyspark_kafkaprod.py")
_LARGE_FOLDERS = ("spark_kafka_sink/broker/handlers",)
"""A file for each API of Kafka."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def offenders(source: str, name: str) -> Iterator[str]:
    """What is too large in one file, as `name:line: what` lines."""
    lines = len(source.splitlines())
    if lines > MAX_FILE_LINES:
        yield f"{name}:1: {lines} lines, at most {MAX_FILE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Function):
            yield from _function_offenders(node, name)


def crowded(files: Iterable[Path]) -> Iterator[str]:
    """The folders that hold too many Python files, `__init__.py` not counted."""
    counts = Counter(path.parent for path in files if path.name != "__init__.py")
    for folder, count in sorted(counts.items()):
        large = folder.as_posix().endswith(_LARGE_FOLDERS)
        if count > MAX_FOLDER_FILES and not large:
            yield f"{folder}: {count} Python files, at most {MAX_FOLDER_FILES}"


def _function_offenders(function: _Function, name: str) -> Iterator[str]:
    place = f"{name}:{function.lineno}: {function.name}"
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if lines > MAX_FUNCTION_LINES:
        yield f"{place} has {lines} lines, at most {MAX_FUNCTION_LINES}"
    parameters = _parameters(function)
    if parameters > MAX_PARAMETERS:
        yield f"{place} has {parameters} parameters, at most {MAX_PARAMETERS}"


def _parameters(function: _Function) -> int:
    arguments = function.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    if positional[:1] in (["self"], ["cls"]):
        positional = positional[1:]
    return len(positional) + len(arguments.kwonlyargs)


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.py"))
        elif path.exists():
            yield path


def main() -> None:
    """Print every offender; exit status 1 when there is one."""
    paths = [Path(argument) for argument in sys.argv[1:]] or [_ROOT / name for name in _SOURCES]
    files = list(_files(paths))
    found = [line for path in files for line in offenders(path.read_text(), str(path))]
    found += crowded(files)
    sys.stdout.write("".join(f"{line}\n" for line in found))
    sys.stdout.write(f"{len(files)} files, {len(found)} too large\n")
    sys.exit(1 if found or not files else 0)


if __name__ == "__main__":
    main()
