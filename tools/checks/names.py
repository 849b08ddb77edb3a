"""Check names, words, and the place of constants: `python -m tools.checks.names [PATH ...]`.

Prints every violation: words that have another word in this project, hints that are no sentence,
documented arguments that do not exist, sections of docstrings for fields, public classes or
functions of the same name, attributes with the name of a function of their module, loggers that do
not have the name of their module, and names without an underscore that only one file uses. In tests
and tools too: constants below a class or function that they do not need, variables whose name says
nothing, test files that have the name of no module, imports between folders of tests, and private
names in test files.
"""

import ast
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path

from tools.checks.private_names import private_names
from tools.checks.unit_tests import imported_tests, misnamed_tests, underscored_names

VAGUE = {"each", "one", "found", "made", "given", "told", "wanted"}
VAGUE_IN_PRODUCT = VAGUE | {"asked", "info", "most", "needy", "some"}
VAGUE_IN_PRODUCT |= {"letters", "shown", "twice", "which"}
WORDS = re.compile(r"\b(can't|can not|\w*serialis\w+)\b", re.IGNORECASE)
ARGUMENT = re.compile(r"^ {4}(\w+):", re.MULTILINE)
_OF_EACH_FORMAT = {"compile_spec", "derive"}
"""Functions that a module of each format defines."""
START = re.compile(r"[a-z]\w*(?![\w:.=])")

_ROOT = Path(__file__).resolve().parents[2]
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
Check = Callable[[ast.Module], Iterator[tuple[int, str]]]


def vague_names(
    tree: ast.Module, vague: Collection[str] = VAGUE_IN_PRODUCT
) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each variable or parameter with a vague name, except fields."""
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    declared = {
        id(field.target)
        for node in classes
        for field in node.body
        if isinstance(field, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        if id(node) in declared:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in vague:
            yield node.lineno, f"`{node.id}` does not say what it is"
        if isinstance(node, ast.arg) and node.arg in vague:
            yield node.lineno, f"`{node.arg}` does not say what it is"


def other_words(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each word in a string that has another word in this project."""
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.Name):
            text = node.id
        for match in WORDS.finditer(text):
            yield getattr(node, "lineno", 0), f"use another word for {match[0]!r}"


def unknown_arguments(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each argument that a docstring describes but nothing declares."""
    for node in ast.walk(tree):
        if isinstance(node, _DEFINITIONS) and not (isinstance(node, ast.ClassDef) and node.bases):
            args = (ast.get_docstring(node) or "").partition("Args:\n")[2].partition("\n\n")[0]
            declared = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
            fields = (part.target for part in ast.walk(node) if isinstance(part, ast.AnnAssign))
            declared |= {ast.unparse(target).removeprefix("_") for target in fields}
            for name in ARGUMENT.findall(args):
                if name not in declared:
                    yield node.lineno, f"the docstring of {node.name} describes `{name}`"


def fields_above(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each class whose docstring describes fields in a section."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            has_init = any(getattr(part, "name", "") == "__init__" for part in node.body)
            doc = ast.get_docstring(node) or ""
            if "Attributes:\n" in doc or ("Args:\n" in doc and not has_init):
                yield node.lineno, f"describe the fields of {node.name} below each field"


def partial_hints(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each hint of literals that is not a whole sentence."""
    constants = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.iter_child_nodes(tree)
        if isinstance(node, ast.Assign)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            for first, last in _texts_of(node.value, constants):
                if START.match(first):
                    yield node.value.lineno, f"the hint {first[:30]!r} has no capital"
                if last[-1:].isalnum():
                    yield node.value.lineno, f"the hint {last[-30:]!r} has no full stop"


def _texts_of(node: ast.expr, constants: Mapping[str, ast.expr]) -> Iterator[tuple[str, str]]:
    """Yield the first and the last literal of each text that an expression can be."""
    node = constants.get(ast.unparse(node), node)
    if isinstance(node, ast.IfExp):
        yield from _texts_of(node.body, constants)
        yield from _texts_of(node.orelse, constants)
    elif isinstance(node, ast.BinOp):
        sides = (_texts_of(side, constants) for side in (node.left, node.right))
        for (first, _), (_, last) in product(*sides):
            yield first, last
    else:
        parts = node.values if isinstance(node, ast.JoinedStr) and node.values else [node]
        yield _string_of(parts[0]), _string_of(parts[-1])


def repeated_names(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each public class, function or variable with the name of an earlier one."""
    first: dict[str, Path] = {}
    for path in paths:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for name in _defined_names(node):
                earlier = first.setdefault(name, path)
                if earlier != path and name not in _OF_EACH_FORMAT:
                    yield f"{path}:{node.lineno}: {name} is also defined in {earlier}"


def _defined_names(node: ast.stmt) -> list[str]:
    """Return the public names that a statement defines, except constants in capitals."""
    names = [node.name] if isinstance(node, _DEFINITIONS) else []
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [target.id for target in targets if isinstance(target, ast.Name)]
    return [name for name in names if name[0] != "_" and not name.isupper()]


def _string_of(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def late_constants(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each constant that is neither at the top nor where it must be.

    Constants stand above the first class or function of a module. A constant that needs classes or
    functions of the module stands directly below the last of them.
    """
    needs: dict[str, set[str]] = {}
    above = ""
    for node in tree.body:
        if isinstance(node, _DEFINITIONS):
            above = node.name
            needs[above] = {above}
        elif isinstance(node, ast.Assign | ast.AnnAssign) and above:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]
            needed = {name for used in names for name in needs.get(used, ())}
            needs |= {target.id: needed for target in targets if isinstance(target, ast.Name)}
            if above not in needed:
                yield node.lineno, "a constant is below a definition that it does not need"


def ambiguous_attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each assigned attribute with the name of a module's function."""
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load):
            continue
        if node.attr in functions:
            yield node.lineno, f"`{node.attr}` is also a function of this module"


def unnamed_units(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each constant whose name ends with SECONDS instead of _S."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id.isupper() and node.id.endswith("_SECONDS"):
            yield node.lineno, f"end the name {node.id} with _S"


def misnamed_loggers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and text of each module's logger that has another name than the module."""
    for node in tree.body:
        text = ast.unparse(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ""
        if "getLogger(" in text and "getLogger(__name__)" not in text:
            yield node.lineno, "name the logger __name__"


CHECKS = (
    vague_names,
    other_words,
    late_constants,
    ambiguous_attributes,
    unnamed_units,
    unknown_arguments,
    fields_above,
    partial_hints,
    misnamed_loggers,
)


def main() -> None:
    """Print all violations; exit with status 1 if there are any."""
    paths = _files([Path(argument) for argument in sys.argv[1:]] or [_ROOT / "spark_kafka_sink"])
    violations = [*_violations_in(paths, CHECKS), *repeated_names(paths)]
    if not sys.argv[1:]:
        tests = _files([_ROOT / "tests"])
        others = [*tests, *_files([_ROOT / "tools"])]
        users = [*others, *_files([_ROOT / "examples"]), *_ROOT.glob("*.py")]
        pages = [
            *_ROOT.glob("*.toml"),
            *_ROOT.glob("*.pth"),
            *_ROOT.glob("*.md"),
            *_ROOT.glob("docs/*.md"),
        ]
        violations += private_names(paths, users, pages)
        violations += _violations_in(others, (partial(vague_names, vague=VAGUE), late_constants))
        violations += misnamed_tests(_ROOT / "tests" / "unit", _ROOT / "spark_kafka_sink")
        violations += [line for path in tests for line in imported_tests(path, _ROOT / "tests")]
        violations += [line for path in tests for line in underscored_names(path)]
    sys.stdout.write("".join(f"{line}\n" for line in violations))
    sys.exit(1 if violations else 0)


def _files(roots: list[Path]) -> list[Path]:
    groups = ([root] if root.is_file() else sorted(root.rglob("*.py")) for root in roots)
    return [path for group in groups for path in group]


def _violations_in(paths: Iterable[Path], checks: Iterable[Check]) -> Iterator[str]:
    for path in paths:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for check in checks:
            for line, text in check(tree):
                yield f"{path}:{line}: {text}"


if __name__ == "__main__":
    main()
