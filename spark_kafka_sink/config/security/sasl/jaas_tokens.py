r"""The tokens of a JAAS configuration, as Java's StreamTokenizer reads them for Kafka's JaasConfig.

Words are of letters, digits and `. - _ $`; a word in quotes, single or double, may hold anything
but a line break, with a backslash before what is meant literally (\n, \t and the like, and octal
numbers, are what they are in C). A slash begins a comment, also a single one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    """In quotes or without: the only kind that has a text in Java."""
    NUMBER = "number"
    """Java makes a number of what begins like one, and Kafka then finds no text."""
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` may be a secret."""

    kind: TokenKind
    text: str


_TOKEN = re.compile(
    r"""
      (?P<blank>[\x00-\x20]+)
    | (?P<block>/\*(?:[\s\S]*?\*/|[\s\S]*))
    | (?P<line>/[\s\S]?[^\n\r]*)
    | (?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]*))
    | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9._$\-\u00a0-\U0010ffff]*)
    | (?P<quoted>(?P<quote>["'])(?P<inside>(?:\\[\s\S]|(?!(?P=quote))[^\\\n\r])*)(?:(?P=quote))?)
    | (?P<sign>[\s\S])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|[\s\S])")
_CONTROL = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def tokens(text: str) -> Iterator[Token]:
    """Read a text; never fails, as every character is part of some token."""
    for match in _TOKEN.finditer(text):
        if match["number"] is not None:
            yield Token(TokenKind.NUMBER, match["number"])
        elif match["word"] is not None:
            yield Token(TokenKind.WORD, match["word"])
        elif match["quoted"] is not None:
            yield Token(TokenKind.WORD, _ESCAPE.sub(_unescaped, match["inside"]))
        elif match["sign"] is not None:
            yield Token(TokenKind.SIGN, match["sign"])


def _unescaped(match: re.Match[str]) -> str:
    letter = match[1]
    if letter[0] in "01234567":
        return chr(int(letter, 8))
    return _CONTROL.get(letter, letter)
