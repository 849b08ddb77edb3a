"""OAUTHBEARER's messages (RFC 7628, section 3), with the extensions of KIP-342."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.foreign_text import quoted
from spark_kafka_sink.security.tokens.json_text import object_in, text_under

if TYPE_CHECKING:
    from spark_kafka_sink.security.tokens.token import Token

SEPARATOR = b"\x01"
"""Between key and value pairs; alone, it is the client's answer to an error."""
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x20-\x7e\t\r\n]+")


def client_first(token: Token, extensions: tuple[tuple[str, str], ...]) -> bytes:
    """The client's only message.

    Raises:
        ConfigError: an extension has a name or a value that can't be sent.
    """
    pairs = [f"auth=Bearer {token.value}", *(_extension(*each) for each in extensions)]
    return b"n,," + SEPARATOR + b"".join(pair.encode() + SEPARATOR for pair in pairs) + SEPARATOR


def _extension(name: str, value: str) -> str:
    if not _EXTENSION_NAME.fullmatch(name) or name == "auth":
        raise ConfigError(
            f"the SASL extension {quoted(name)!r} can't be sent",
            hint="A name has letters only, and is not auth (KIP-342).",
        )
    if not _EXTENSION_VALUE.fullmatch(value):
        raise ConfigError(
            f"the SASL extension {name} has a value that can't be sent",
            hint="A value is ASCII without control characters (KIP-342).",
        )
    return f"{name}={value}"


def told_by(error: str) -> str:
    """What a broker's error says: its status, and the scope that it wants."""
    found = object_in(error)
    if found is None:
        return quoted(error)
    status, scope = text_under(found, "status"), text_under(found, "scope")
    if status is None:
        return quoted(error)
    return quoted(status) + (f", it wants the scope {quoted(scope)}" if scope else "")
