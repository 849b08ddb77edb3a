"""Check that tests/unit mirrors the package, and what tests import from other tests.

A module imports no test file; a folder of `tests` imports only itself and `tests.support`. Test
files have no private names.

A test file is `tests/unit/<package>/test_<module>[_<aspect>].py`, where the module or subpackage is
in that package; tests of several modules have the name of the package in place of a module.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_EXEMPT = {"docs"}
"""Folders of tests/unit that mirror other folders than the package's."""

_TEST_MODULE = re.compile(r"tests\.(\w+\.)*test_\w+")


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


def imported_tests(path: Path, tests: Path) -> Iterator[str]:
    """Yield a line for each import from a test file, or from another folder than `tests/support`.

    The path is below `tests`, whose own modules (`conftest.py`) import only `tests.support`.
    """
    allowed = {"support", path.relative_to(tests).parts[0]}
    for line, module in _imports(ast.parse(path.read_text(encoding="utf-8"))):
        if _TEST_MODULE.match(module):
            yield f"{path}:{line}: {module} is a test file"
        elif module.startswith("tests.") and module.split(".")[1] not in allowed:
            yield f"{path}:{line}: {module} is not in tests/support"


def _imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            prefix = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                yield node.lineno, prefix + alias.name


def underscored_names(path: Path) -> Iterator[str]:
    """Yield a line for each name of a test file that begins with _: no module imports the file."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        name = node.name if isinstance(node, ast.FunctionDef | ast.ClassDef) else ""
        if isinstance(node, ast.Assign | ast.AnnAssign):
            name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        if path.name.startswith("test_") and name.startswith("_"):
            yield f"{path}:{node.lineno}: {name} needs no underscore in a test file"
