"""Check that what only one file of the package uses has a name that begins with an underscore.

Exempt are the names in `__all__`, decorated functions (commands, fixtures, cached functions), the
functions that other programs call by name, names in the pages, and classes that the annotations,
bases or constants of other public names contain.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

_CALLED_BY_NAME = {
    "load_ipython_extension",
    "unload_ipython_extension",
    "pytest_configure",
    "compile_spec",
    "derive",
}
_CODE = re.compile(r"`(\w+)(?:\(.*?\))?`")
_DOTTED = re.compile(r"(?:\w+\.)*(\w+\.\w+)")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def private_names(
    paths: Iterable[Path], others: Iterable[Path], pages: Iterable[Path]
) -> Iterator[str]:
    """Yield a line for each name in `paths` that needs an underscore: no other file uses it."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (*paths, *others)}
    used = {name for tree in trees.values() for name in _used(tree)}
    texts = [page.read_text(encoding="utf-8") for page in pages]
    used |= {name for text in texts for name in (*_CODE.findall(text), *_DOTTED.findall(text))}
    for path in paths:
        exposed = _exposed(trees[path])
        for node in trees[path].body:
            name = _private_candidate(node)
            uses = {name, f"{path.stem}.{name}", f"{path.parent.name}.{name}"} & used
            if name and not uses and name not in exposed:
                yield f"{path}:{node.lineno}: only this file uses {name}: begin it with _"


def _private_candidate(node: ast.stmt) -> str | None:
    """Return the name that a statement defines if it is public and other files must use it."""
    name = ""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        name = ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    elif isinstance(node, ast.ClassDef) or (
        isinstance(node, _FUNCTIONS) and not node.decorator_list
    ):
        name = node.name
    is_public = name.isidentifier() and not name.startswith("_") and name not in _CALLED_BY_NAME
    return name if is_public else None


def _used(tree: ast.Module) -> Iterator[str]:
    """Yield `module.name` for each use of a module's name, and the names in `__all__`."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = (node.module or "").rpartition(".")[2]
            yield from (f"{module}.{alias.name}" for alias in node.names)
        if isinstance(node, ast.Import | ast.ImportFrom):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield f"{_last_name(node.value, modules)}.{node.attr}"
        elif isinstance(node, ast.Call) and len(node.args) > 1:  # setattr(module, "name", ...)
            yield f"{_last_name(node.args[0], modules)}.{getattr(node.args[1], 'value', '')}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from _DOTTED.findall(node.value)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            yield from ast.literal_eval(node.value)


def _last_name(node: ast.expr, modules: dict[str, str]) -> str:
    name: str = getattr(node, "id", getattr(node, "attr", ""))
    return modules.get(name, name).rpartition(".")[2]


def _exposed(tree: ast.Module) -> set[str]:
    """Return the names that the interfaces of the module's public names contain."""
    interfaces = [part for node in tree.body for part in _interface(node)]
    names = (name for part in interfaces for name in re.findall(r"\w+", ast.unparse(part)))
    return set(names)


def _interface(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the annotations, bases and values that a public name shows to other files."""
    if isinstance(node, _FUNCTIONS) and (node.name[0] != "_" or node.name[:2] == "__"):
        yield from (part for part in (node.args, node.returns) if part is not None)
    elif isinstance(node, ast.ClassDef) and node.name[0] != "_":
        yield from node.bases
        for part in node.body:
            yield from _interface(part)
    elif isinstance(node, ast.AnnAssign) and ast.unparse(node.target)[0] != "_":
        yield node
    elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0])[0] != "_":
        yield node.value
