"""Check the shell examples of the pages: their commands, targets and options must exist."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec

import typer

from spark_kafka_sink.cli.main import app
from tools.docs.pages import ROOT

_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)

_OTHERS = ("export", "spark-submit", "cp", "tar")

_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""Base class of typer's argument errors, which typer does not export."""


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
