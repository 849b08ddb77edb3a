"""Tables, and what classes say of their own attributes."""

from __future__ import annotations

import ast
import inspect
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar in a cell is escaped."""
    lines = [_line(heading), "|" + "---|" * len(heading)]
    lines += [_line([cell.replace("|", "\\|") for cell in row]) for row in rows]
    return "\n".join([*lines, ""])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def attribute_docs(owner: type) -> dict[str, str]:
    """What stands below a class's attributes and in its properties, each in one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {name: one_line(text) for name, text in _documented(body)}


def _documented(body: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for node, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(node, ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield node.name, text
        elif (name := _attribute(node)) and isinstance(after, ast.Expr):
            assert isinstance(after.value, ast.Constant)
            yield name, str(after.value.value)


def _attribute(node: ast.stmt) -> str | None:
    if isinstance(node, ast.AnnAssign):
        target: ast.expr = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    else:
        return None
    return target.id if isinstance(target, ast.Name) else None


def one_line(text: str) -> str:
    """A text without its line breaks; `` of docstrings become one."""
    return " ".join(text.split()).replace("``", "`")
