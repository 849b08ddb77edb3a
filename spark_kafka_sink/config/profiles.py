"""Load profiles from `conf/`, and parse Java's .properties syntax."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.masking import safe_name
from spark_kafka_sink.config.enums import ProfileName

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable


_PACKAGE = "spark_kafka_sink"
_FOLDER = "conf"
_BLANK = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")
_CONTINUED_LINE = re.compile(r"(?<!\\)(\\\\)*\\$")
_PAIR = re.compile(r"(?P<name>(?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROL_CHARACTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def load_profile(profile: ProfileName) -> dict[str, str]:
    """Return the options that a profile sets, by Java's names; empty for `ProfileName.NONE`.

    Raises:
        ConfigError: the profile's file is missing.
    """
    return (
        {}
        if profile is ProfileName.NONE
        else parse_properties(find_file(f"{profile}.conf").read_text(encoding="utf-8"))
    )


def find_file(name: str) -> Traversable:
    """Return a file of `conf/`, from the installed package or from the source checkout.

    Raises:
        ConfigError: the file does not exist in either folder.
    """
    package = files(_PACKAGE)
    candidates = (package / _FOLDER / name, Path(str(package)).parent / _FOLDER / name)
    for path in candidates:
        if path.is_file():
            return path
    raise ConfigError(
        f"the file {_FOLDER}/{name} is missing from the installed package",
        hint="Reinstall the package, or set the options of the profile individually.",
    )


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse name=value lines in Java's .properties syntax.

    # and ! start a comment, and a backslash at the end continues a line. Whitespace around names
    and before values is ignored, but whitespace after values is kept. A backslash escapes the next
    character; \t, \n, \r, \f and \u0041 have the same meaning as in Java.

    Raises:
        ConfigError: an escape sequence is incomplete; the message does not show the value.
    """
    return dict(_parse_line(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for physical_line in _LINE_END.split(text):
        line = physical_line.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        if _CONTINUED_LINE.search(line):
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _parse_line(line: str) -> tuple[str, str]:
    match = _PAIR.match(line)
    if match is None:
        raise TypeError("every line matches; the name can be empty")
    name = _ESCAPE.sub(_unescape, match["name"])
    if re.search(r"(?<!\\)(\\\\)*\\u(?![0-9A-Fa-f]{4})", line):
        raise ConfigError(
            f"the value of {safe_name(name)} has a \\u that is not followed by four hexadecimal "
            "digits",
            hint="Write each backslash twice in this file.",
        )
    return name, _ESCAPE.sub(_unescape, match["value"])


def _unescape(match: re.Match[str]) -> str:
    name = match[1]
    if len(name) > 1:
        return chr(int(name[1:], 16))
    return _CONTROL_CHARACTERS.get(name, name)
