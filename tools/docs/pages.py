"""Pages, their generated blocks, and Markdown tables.

A block is between the lines `<!-- name:begin -->` and `<!-- name:end -->`.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"

_BEGIN = re.compile(r"^<!-- ([a-z0-9-]+):begin -->$", re.MULTILINE)


def pages() -> list[Path]:
    """Return the paths of all published pages, starting with the README."""
    return [README, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.glob("*.md"))]


def blocks(text: str) -> list[str]:
    """Return the names of the blocks in a page, in order."""
    return _BEGIN.findall(text)


def block(text: str, name: str) -> str:
    """Return the text between a block's markers.

    Raises:
        ValueError: the markers are missing, repeated, or out of order.
    """
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->\n"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise ValueError(f"a page must contain {begin.strip()} and {end.strip()} exactly once")
    return text.split(begin)[1].split(end, maxsplit=1)[0]


def replace_block(text: str, name: str, new: str) -> str:
    """Return the page's text with the content of a block replaced.

    Raises:
        ValueError: see `block`.
    """
    begin = f"<!-- {name}:begin -->\n"
    return text.replace(begin + block(text, name), begin + new)


def page_of(name: str) -> Path:
    """Return the page that contains a block.

    Raises:
        ValueError: the number of pages with this block is not one.
    """
    matching = [page for page in pages() if name in blocks(page.read_text(encoding="utf-8"))]
    if len(matching) != 1:
        raise ValueError(f"{len(matching)} pages contain the block {name}")
    return matching[0]


def write_block(name: str, new: str) -> None:
    """Replace the content of a block on the page that contains it."""
    page = page_of(name)
    text = replace_block(page.read_text(encoding="utf-8"), name, new)
    page.write_text(text, encoding="utf-8")


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; vertical bars in cells are escaped."""
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    head, *lines = (f"| {' | '.join(cells)} |" for cells in (heading, *escaped))
    return "\n".join([head, "|" + "---|" * len(heading), *lines, ""])


def attribute_docs(owner: type) -> dict[str, str]:
    """Return the docstrings of a class's attributes and properties by name, each as one line."""
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
    """Return a text without line breaks, with double backticks replaced by single backticks."""
    return " ".join(text.split()).replace("``", "`")
