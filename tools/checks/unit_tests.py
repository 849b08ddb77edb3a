"""Check that tests/unit mirrors the package, and that no module imports a test file.

A test file is `tests/unit/<package>/test_<module>[_<aspect>].py`, where the module or subpackage is
in that package; tests of several modules have the name of the package in place of a module.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_EXEMPT = {"docs"}
"""Folders of tests/unit that mirror other folders than the package's."""

_TEST_MODULE = re.compile(r"tests\.(\w+\.)*test_\w+$")


def misnamed_tests(tests: Path, package: Path) -> Iterator[str]:
    """Yield a line for each test file that has the name of no module of the mirrored package."""
    for path in sorted(tests.rglob("test_*.py")):
        folder = path.relative_to(tests).parent
        if _EXEMPT.isdisjoint(folder.parts) and not _names_a_module(path, package / folder):
            yield f"{path}:1: {package / folder} has no module of this name"


def _names_a_module(test: Path, package: Path) -> bool:
    modules = {path.stem for path in package.glob("*") if path.stem[:2] != "__"} | {package.name}
    aspect = test.stem.removeprefix("test_")
    is_package = (package / "__init__.py").exists()
    return is_package and any(f"{aspect}_".startswith(f"{module}_") for module in modules)


def imported_tests(path: Path) -> Iterator[str]:
    """Yield a line for each import from a test file; helpers belong in a module of their own."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and _TEST_MODULE.match(node.module or ""):
            yield f"{path}:{node.lineno}: {node.module} is a test file"
