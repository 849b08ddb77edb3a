"""Text for users: sizes and counts, quoted user input, valid topic names.

Any option might contain a key, a login or a password by mistake, and errors are written to logs and
to Spark's event log. Therefore, every value, name or path from the user must pass through `shown`,
`shown_name`, `shown_variable` or `shown_file` before it becomes part of a message. If a text looks
like a secret, these functions return a description of the text.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

KB: Final = 1_000
MB: Final = 1_000_000
MAX_VALUE_CHARS = 100
"""Maximum length of a value or name in an error, in characters. Longer texts are described."""
_MAX_PATH_CHARS = 300
NOT_SHOWN = "not what it should be"
_NAME = re.compile(r"[\w.\-]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Z0-9_]+", re.ASCII)
_FILE_NAME = re.compile(
    r"[\w.\- ]+\.(pem|crt|cer|ca|key|jks|p12|pfx|keystore|truststore|keytab|txt|jwt|token|conf)",
    re.ASCII | re.IGNORECASE,
)
_MAX_EXTERNAL_CHARS = 200
"""Maximum length of an external text in an error, in characters."""
TOPIC_NAMES = "Use 1 to 249 ASCII letters, digits, dots, underscores and hyphens."
"""The rules for topic names, as a hint for users."""
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)


def size_text(size: float) -> str:
    """Return a size in bytes as text in B, kB (10^3) or MB (10^6), such as "3.4 kB"."""
    if round(size) < KB:
        return f"{size:,.0f} B"
    if round(size / KB, 1) < KB:
        return f"{size / KB:,.1f} kB"
    return f"{size / MB:,.1f} MB"


def capitalized(sentence: str) -> str:
    """Return a sentence that starts with a capital; the rest is unchanged."""
    return sentence[:1].upper() + sentence[1:]


def plural(count: float, singular: str, many: str = "") -> str:
    """Return a count with its noun, such as "1 retry" or "2,000 retries".

    The count is rounded. `many` defaults to `singular` with an s.
    """
    text = f"{count:,.0f}"
    return f"{text} {singular if text == '1' else many or singular + 's'}"


def listed(texts: Sequence[str], limit: int, separator: str = ", ") -> str:
    """Return the first texts and the number of the others, such as "a, b and 3 more"."""
    others = len(texts) - limit
    return separator.join(texts[:limit]) + (f" and {others} more" if others > 0 else "")


class SecretKind(StrEnum):
    """The kind of secret that a text looks like. Errors must not repeat such a text."""

    PRIVATE_KEY = "a private key"
    PEM = "PEM"
    LOGIN = "a login (JAAS)"
    PASSWORD = "a password"  # noqa: S105 a word for it


_LOOKS: tuple[tuple[SecretKind, re.Pattern[str]], ...] = (
    (SecretKind.PRIVATE_KEY, re.compile(r"-----\s*BEGIN\b[^-]*\bPRIVATE\s+KEY", re.IGNORECASE)),
    (SecretKind.PEM, re.compile(r"-----\s*(BEGIN|END)\b", re.IGNORECASE)),
    (
        SecretKind.LOGIN,
        re.compile(
            r"LoginModule\s+\w|\b(required|requisite|sufficient|optional)\s+[\w.]+\s*=",
            re.IGNORECASE,
        ),
    ),
    (
        SecretKind.PASSWORD,
        re.compile(r"(passw(or)?d|pwd|secret|token|credentials?)[\"']?\s*[=:]", re.IGNORECASE),
    ),
)


def secret_kind(text: str) -> SecretKind | None:
    """Return the kind of secret that a text looks like, or None."""
    return next((kind for kind, look in _LOOKS if look.search(text)), None)


def described(text: str) -> str:
    """Describe a text only by its length and kind, such as "a text of 1,704 characters"."""
    kind = secret_kind(text)
    length = f"a text of {plural(len(text), 'character')}"
    return length if kind is None else f"{length} that looks like {kind.value}"


def shown(text: str) -> str:
    """Return a value in quotes. If it is long or looks like a secret, describe it instead."""
    if len(text) <= MAX_VALUE_CHARS and secret_kind(text) is None:
        return repr(text)
    return described(text)


def shown_name(name: str) -> str:
    """Return an unknown option's name. If it does not look like a name, describe it instead."""
    if len(name) <= MAX_VALUE_CHARS and _NAME.fullmatch(name) and secret_kind(name) is None:
        return name
    return f"({described(name)})"


def shown_variable(name: str) -> str:
    """Return the name of an environment variable. If it might be a value, describe it instead."""
    if len(name) <= MAX_VALUE_CHARS and _VARIABLE.fullmatch(name):
        return f"the environment variable {name}"
    return (
        f"an environment variable whose name is {described(name)}, "
        "with characters other than A-Z, 0-9, _"
    )


def shown_file(path: str, kind: str = "file") -> str:
    """Return a file's or folder's name. If it might be a file's content or a password, describe it.

    A path contains a separator, or has an extension that is typical of certificate and password
    files.
    """
    is_path = "/" in path or "\\" in path or _FILE_NAME.fullmatch(path) is not None
    if is_path and len(path) <= _MAX_PATH_CHARS and "\n" not in path and secret_kind(path) is None:
        return f"the {kind} {quoted(path)}"
    return f"a {kind} whose name is {described(path)}, which does not look like a path"


def quoted(text: str) -> str:
    """Return the start of an external text on one line, without control characters."""
    shown = text[:_MAX_EXTERNAL_CHARS] + "…" if len(text) > _MAX_EXTERNAL_CHARS else text
    return "".join(char if char.isprintable() else "�" for char in shown)


def is_topic_name(name: str) -> bool:
    """Return True if this is a valid topic name. See `TOPIC_NAMES`."""
    return name not in (".", "..") and _TOPIC_NAME.fullmatch(name) is not None
