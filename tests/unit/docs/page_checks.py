"""Checks of a page: its links and paths, and the commands of its shell examples must exist."""

import ast
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import typer

from spark_kafka_sink.cli.main import app
from tools.docs.pages import ROOT, blocks, replace_block

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)
_FILE = re.compile(r"(?<!python )\b[\w/]+\.py\b")
"""A Python file in a docstring, unless it is a user's program as in `python job.py`."""
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_OTHERS = ("export", "spark-submit", "cp", "tar")

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Base class of typer's argument errors, which typer does not export."""
_LINK = re.compile(r"\]\((?!https?:)([^)\s]*)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)*(?:/|\.(?:py|md|conf|txt|ipynb|toml|jsonl)))`")


def commands(text: str) -> list[list[str]]:
    """Return the words of each command in a page's shell blocks; join continued lines."""
    lines = "".join(_BLOCK.findall(text)).replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line, comments=True))]


def problem(words: list[str]) -> str | None:
    """Return the reason why a command would not start, or None.

    make, kafkaprod, python -m and pip are checked. Commands in `_OTHERS` can have any arguments;
    all other commands are reported.
    """
    match words:
        case ["make", *rest]:
            return _make(rest)
        case ["kafkaprod", *rest]:
            return _kafkaprod(rest)
        case ["python", "-m", module, *_]:
            return None if find_spec(module) else f"no module {module}"
        case ["pip" | "environment/bin/pip", "install" | "wheel", *_]:
            return None
        case [name, *_] if name in _OTHERS:
            return None
        case _:
            return "nobody knows the command"


def _make(words: list[str]) -> str | None:
    targets = [word for word in words if "=" not in word]
    known = (ROOT / "Makefile").read_text(encoding="utf-8")
    missing = [word for word in targets if not re.search(rf"^{word}:", known, re.MULTILINE)]
    return f"no target {missing[0]}" if missing else None


def _kafkaprod(words: list[str]) -> str | None:
    name, *rest = words
    command = typer.main.get_group(app).commands.get(name)
    if command is None:
        return f"no command {name}"
    try:
        command.make_context(name, rest)
    except _UsageError as error:
        return str(error)
    return None


def without_blocks(text: str) -> str:
    """Return a page without its generated blocks."""
    for name in blocks(text):
        text = replace_block(text, name, "")
    return text


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    headings = (
        re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading) for heading in _HEADING.findall(_prose(text))
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Return the links of a page that lead nowhere."""
    return [link for link in _LINK.findall(_prose(_read(page))) if not _leads(page, link)]


def _leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors(_read(target))


def missing_paths(page: Path) -> list[str]:
    """Return paths in backticks that exist neither in the repository nor in the package."""
    named = _PATH.findall(_prose(_read(page)))
    return [
        path
        for path in named
        if not any((base / path).exists() for base in (ROOT, ROOT / "spark_kafka_sink"))
    ]


def missing_files(module: Path) -> list[str]:
    """Return the Python files that a module's docstrings name, but that do not exist.

    The paths are relative to the module's folder or to a folder that contains it.
    """
    nodes = ast.walk(ast.parse(_read(module)))
    texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, _DOCUMENTED)]
    folders = [folder for folder in module.parents if folder.is_relative_to(ROOT)]
    return [
        path
        for text in texts
        for path in _FILE.findall(text)
        if not any((folder / path).exists() for folder in folders)
    ]


def _read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _prose(text: str) -> str:
    return _CODE.sub("", text)
