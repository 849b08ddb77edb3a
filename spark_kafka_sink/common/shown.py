"""What an error says of a text that somebody has given: the text, or what it looks like.

A key, a login or a password may stand in any option by mistake, and errors reach logs and Spark's
event log. So every value, name and path of the user's goes through here on its way into a message.
"""

from __future__ import annotations

import re
from enum import StrEnum

from spark_kafka_sink.common.foreign_text import quoted
from spark_kafka_sink.common.quantity import plural

LONGEST = 100
"""Characters of a value or a name that an error repeats; one that is longer is described."""
LONGEST_PATH = 300
NOT_SHOWN = "not what it should be"


class SecretKind(StrEnum):
    """What a text looks like that no error may repeat."""

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
_NAME = re.compile(r"[\w.\-]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Z0-9_]+", re.ASCII)
_FILE_NAME = re.compile(
    r"[\w.\- ]+\.(pem|crt|cer|ca|key|jks|p12|pfx|keystore|truststore|keytab|txt|jwt|token|conf)",
    re.ASCII | re.IGNORECASE,
)


def secret_kind(text: str) -> SecretKind | None:
    """What a text looks like, if it is one that no error may repeat."""
    return next((kind for kind, look in _LOOKS if look.search(text)), None)


def described(text: str) -> str:
    """A text by its length and kind alone, as "a text of 1,704 characters"."""
    kind = secret_kind(text)
    length = f"a text of {plural(len(text), 'character')}"
    return length if kind is None else f"{length} that looks like {kind.value}"


def shown(text: str) -> str:
    """A value, in quotes, if it is short and does not look like a secret."""
    if len(text) <= LONGEST and secret_kind(text) is None:
        return repr(text)
    return described(text)


def shown_name(name: str) -> str:
    """The name of an option that is not known, if it looks like a name."""
    if len(name) <= LONGEST and _NAME.fullmatch(name) and secret_kind(name) is None:
        return name
    return f"({described(name)})"


def shown_variable(name: str) -> str:
    """The environment variable of a reference; what may be the value itself is not repeated."""
    if len(name) <= LONGEST and _VARIABLE.fullmatch(name):
        return f"the environment variable {name}"
    return f"an environment variable by {described(name)}, which is not of A-Z, 0-9 and _ alone"


def shown_file(path: str) -> str:
    """The file that an option names; what may be the file's content or a password is not repeated.

    A path has a separator, or an extension that files of certificates and passwords have.
    """
    is_path = "/" in path or "\\" in path or _FILE_NAME.fullmatch(path) is not None
    if is_path and len(path) <= LONGEST_PATH and "\n" not in path and secret_kind(path) is None:
        return f"the file {quoted(path)}"
    return f"a file by {described(path)}, which does not look like a path"
