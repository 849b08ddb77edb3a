"""Detection of secrets in texts, option names and URIs, and the texts that are shown instead.

Any option might contain a key, a login or a password by mistake, and errors are written to logs and
to Spark's event log. Therefore, every value, name or path from the user must pass through
`safe_repr`, `safe_name`, `safe_variable` or `safe_file` before it becomes part of a message. If a
text looks like a secret, these functions return a description of the text.

The parts of a URI are found without `urllib`, because credentials must also be found in a URI that
is invalid, such as one with a single slash or an unescaped slash in the password.
"""

from __future__ import annotations

import re
from enum import StrEnum
from urllib.parse import parse_qsl

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.text import plural, quoted

MAX_VALUE_CHARS = 100
"""Maximum length of a value or name in an error, in characters. Longer texts are described."""
_MAX_PATH_CHARS = 300
_NAME = re.compile(r"[\w.\-]+", re.ASCII)
_VARIABLE = re.compile(r"[A-Z0-9_]+", re.ASCII)
_FILE_NAME = re.compile(
    r"[\w.\- ]+\.(pem|crt|cer|ca|key|jks|p12|pfx|keystore|truststore|keytab|txt|jwt|token|conf)",
    re.ASCII | re.IGNORECASE,
)
_SECRET = re.compile(
    r"password|secret|jaas|token|credential|signature|^sig$|\.key$|(access|account)_?key",
    re.IGNORECASE,
)
"""`sig` is the signature of a shared access signature (SAS) in Azure."""
_REDACTED = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)
_URI = re.compile(r"\s*[a-z][a-z0-9+.-]*:/", re.IGNORECASE)
_USER = re.compile(
    r"""^
    (?!\s*(?:file|hdfs|viewfs):/(?:[^/]|//))  # without a host; a folder may contain an @
    (?!\s*abfss?:/+[^/?#:@]*@[^/?#:@]*(?::\d*)?(?:[/?#]|$))  # abfs://container@account
    (\s*[a-z][a-z0-9+.-]*:/+)
    (?!\[)  # an IPv6 address
    [^/?#:]*(?::(?!\d*(?:[/?#]|$)).*)?@  # a colon that does not precede a port
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
"""The scheme and the user part at the start of a URI."""
_URI_IN_TEXT = re.compile(r"[a-z][a-z0-9+.-]*:/[^\s'\"]+", re.IGNORECASE)


class SecretKind(StrEnum):
    """The kind of secret that a text looks like. Errors must not repeat such a text."""

    PRIVATE_KEY = "a private key"
    PEM = "PEM"
    LOGIN = "a login (JAAS)"
    PASSWORD = "a password"  # noqa: S105 a word for it


_SECRET_TEXTS: tuple[tuple[SecretKind, re.Pattern[str]], ...] = (
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
    return next((kind for kind, pattern in _SECRET_TEXTS if pattern.search(text)), None)


def describe_text(text: str) -> str:
    """Describe a text only by its length and kind, such as "a text of 1,704 characters"."""
    kind = secret_kind(text)
    length = f"a text of {plural(len(text), 'character')}"
    return length if kind is None else f"{length} that looks like {kind.value}"


def safe_repr(text: str) -> str:
    """Return a value in quotes. If it is long or looks like a secret, describe it instead."""
    if len(text) <= MAX_VALUE_CHARS and secret_kind(text) is None:
        return repr(text)
    return describe_text(text)


def safe_name(name: str) -> str:
    """Return an unknown option's name. If it does not look like a name, describe it instead."""
    if len(name) <= MAX_VALUE_CHARS and _NAME.fullmatch(name) and secret_kind(name) is None:
        return name
    return f"({describe_text(name)})"


def safe_variable(name: str) -> str:
    """Return the name of an environment variable. If it might be a value, describe it instead."""
    if len(name) <= MAX_VALUE_CHARS and _VARIABLE.fullmatch(name):
        return f"the environment variable {name}"
    return (
        f"an environment variable whose name is {describe_text(name)}, "
        "with characters other than A-Z, 0-9, _"
    )


def safe_file(path: str, kind: str = "file") -> str:
    """Return a file's or folder's name. If it might be a file's content or a password, describe it.

    A path contains a separator, or has an extension that is typical of certificate and password
    files.
    """
    is_path = "/" in path or "\\" in path or _FILE_NAME.fullmatch(path) is not None
    if is_path and len(path) <= _MAX_PATH_CHARS and "\n" not in path and secret_kind(path) is None:
        return f"the {kind} {quoted(path)}"
    return f"a {kind} whose name is {describe_text(path)}, which does not look like a path"


def is_redacted(name: str, value: str) -> bool:
    """Return True if Spark would redact the option with the default of spark.redaction.regex."""
    return _REDACTED.search(name) is not None or _REDACTED.search(value) is not None


def is_secret(name: str) -> bool:
    """Return True if the value of an option with this name is secret."""
    return _SECRET.search(name) is not None


def reject_credentials(uri: str, key: str) -> None:
    """Raise an error if a URI contains credentials, because the config is sent to tasks and logged.

    Raises:
        ConfigError: the URI contains credentials, which the message does not repeat.
    """
    if has_credentials(uri):
        raise ConfigError(
            f"option {key} contains credentials",
            hint="Set them in the environment or in the file system's own configuration.",
        )


def has_credentials(uri: str) -> bool:
    """Return True if a URI has a user part, or a secret in its query. False for plain paths."""
    if _USER.match(uri):
        return True
    query = re.sub("[?#]", "&", split_query(uri)[1])
    return any(is_secret(name) for name, _ in parse_qsl(query))


def redact_uri(uri: str) -> str:
    """Return the URI without its user part and query."""
    if not _URI.match(uri):
        return uri
    scheme, colon, rest = split_query(_USER.sub(r"\1", uri, count=1))[0].partition(":")
    return f"{scheme.lower()}{colon}{rest}"


def redact_uris(text: str) -> str:
    """Return the text without the user part and the query of each URI in it."""
    return _URI_IN_TEXT.sub(lambda match: redact_uri(match[0]), text)


def split_query(uri: str) -> tuple[str, str]:
    """Return the part before the query or fragment, and the rest. Plain paths have no query."""
    end = re.search("[?#]", uri) if _URI.match(uri) else None
    return (uri, "") if end is None else (uri[: end.start()], uri[end.start() :])
