"""Recognises credentials in URIs and names, so that they are neither stored, logged nor sent."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, parse_qsl, urlsplit

from spark_kafka_sink.common.errors import ConfigError

_SECRET = re.compile(
    r"password|secret|jaas|token|credential|signature|\.key$|(access|account)_?key", re.IGNORECASE
)

_REDACTED = re.compile(r"secret|password|token|access[.]?key", re.IGNORECASE)


def is_redacted(name: str, value: str) -> bool:
    """Whether Spark hides an option, by its name or its value (spark.redaction.regex's default)."""
    return _REDACTED.search(name) is not None or _REDACTED.search(value) is not None


def is_secret(name: str) -> bool:
    """Whether the value under a name is a secret, which no text may contain."""
    return _SECRET.search(name) is not None


def refuse_credentials(uri: str, key: str) -> None:
    """Refuse a URI that carries a password: a config travels to every task and into logs.

    Raises:
        ConfigError: there are credentials in it; the message does not repeat them.
    """
    if has_credentials(uri):
        raise ConfigError(
            f"option {key} holds credentials",
            hint="Give them through the environment or the file system's own configuration.",
        )


def has_credentials(uri: str) -> bool:
    """Whether a URI has a user part, or a query that names a secret. Plain paths never have."""
    if "://" not in uri:
        return False
    parts = urlsplit(uri)
    if "@" in parts.netloc and not _names_container(parts):
        return True
    return any(is_secret(name) for name, _ in parse_qsl(parts.query))


def redacted(uri: str) -> str:
    """The URI without its user part and query, to be shown."""
    if "://" not in uri:
        return uri
    parts = urlsplit(uri)
    place = parts.netloc if _names_container(parts) else parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{place}{parts.path}"


def _names_container(parts: SplitResult) -> bool:
    """Whether the user part of a URI is no user: abfs://container@account.dfs.core.windows.net."""
    return parts.scheme in {"abfs", "abfss"} and parts.password is None
