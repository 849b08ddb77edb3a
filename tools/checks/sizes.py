"""Check the size of functions, and that package docstrings list all modules.

`python -m tools.checks.sizes [PATH ...]` prints every violation. Package docstrings are checked
below the paths.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FUNCTION_LINES = 60

_ROOT = Path(__file__).resolve().parents[2]
_SOURCES = (
    "spark_kafka_sink",
    "tests",
    "tools",
    "pyspark_kafkaprod.py",
    "spark_kafka_sink_workers.py",
)
_PACKAGE = "spark_kafka_sink"
_LISTED = re.compile(r"^- `(\w+)`", re.MULTILINE)


def offenders(source: str, name: str) -> Iterator[str]:
    """Yield a line `name:line: text` for each function that is too large."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                most = f"at most {MAX_FUNCTION_LINES}"
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines, {most}"


def unlisted(init: Path) -> Iterator[str]:
    """Yield a line for each difference between a package's docstring and its modules.

    A docstring must list each module and subpackage once, in reading order, as "- `module`:
    description".
    """
    listed = _LISTED.findall(ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or "")
    there = {
        path.stem
        for path in init.parent.iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    for name in sorted(there - set(listed)):
        yield f"{init}:1: the docstring does not list `{name}`"
    for name in sorted(set(listed) - there):
        yield f"{init}:1: the docstring lists `{name}`, which does not exist"
    if len(set(listed)) < len(listed):
        yield f"{init}:1: the docstring lists a module twice"


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.py"))
        elif path.exists():
            yield path


def main() -> None:
    """Print all violations; exit with status 1 if there are any."""
    paths = [Path(argument) for argument in sys.argv[1:]] or [_ROOT / name for name in _SOURCES]
    files = list(_files(paths))
    violations = [
        line for path in files for line in offenders(path.read_text(encoding="utf-8"), str(path))
    ]
    inits = (path for path in files if path.name == "__init__.py" and _PACKAGE in path.parts)
    violations += [
        line for path in inits if path.parent.name != _PACKAGE for line in unlisted(path)
    ]
    sys.stdout.write("".join(f"{line}\n" for line in violations))
    sys.exit(1 if violations or not files else 0)


if __name__ == "__main__":
    main()
