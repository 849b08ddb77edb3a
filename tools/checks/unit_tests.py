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
    """Yield a line for each test file that is not named after its module of the mirrored package.

    A file whose only import except `common` is a module of that package is named after it.
    """
    for path in sorted(tests.rglob("test_*.py")):
        folder = path.relative_to(tests).parent
        if _EXEMPT.isdisjoint(folder.parts):
            modules = _modules_in(package / folder)
            if not _is_named_after(path, modules):
                yield f"{path}:1: {package / folder} has no module of this name"
            tested = _imported_modules(path, package)
            if len(tested) == 1 and tested <= modules and not _is_named_after(path, tested):
                yield f"{path}:1: tests only {tested.pop()}"


def _is_named_after(test: Path, modules: set[str]) -> bool:
    aspect = test.stem.removeprefix("test_")
    return any(f"{aspect}_".startswith(f"{module}_") for module in modules)


def _modules_in(folder: Path) -> set[str]:
    if not (folder / "__init__.py").exists():
        return set()
    return {path.stem for path in folder.glob("*") if path.stem[:2] != "__"} | {folder.name}


def _imported_modules(test: Path, package: Path) -> set[str]:
    """Return the names of the package's modules, except `common`, or nothing with a helper."""
    modules = set()
    for _, name in _imports(ast.parse(test.read_text(encoding="utf-8"))):
        path = package.parent.joinpath(*name.split("."))
        module = path if path.with_suffix(".py").exists() else path.parent
        if name.startswith("tests."):
            return set()
        if module.is_relative_to(package) and not module.is_relative_to(package / "common"):
            modules.add(module.name)
    return modules


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
