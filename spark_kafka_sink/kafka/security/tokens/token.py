"""Bearer tokens (RFC 6750, RFC 7519), and the interface of their sources."""

from __future__ import annotations

import binascii
import re
from abc import ABC, abstractmethod
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.kafka.security.tokens.json_values import json_number, parse_json_object

if TYPE_CHECKING:
    from collections.abc import Hashable

MAX_CLOCK_SKEW_MS = 60_000
"""Maximum assumed difference between clocks in milliseconds. An expired token is still sent for
this time, because it might still be valid according to the broker's clock.
"""


MAX_TOKEN_CHARS = 256 * 1024
"""Maximum length of a token in characters. Kafka's brokers accept 512 KiB before authentication
(sasl.server.max.receive.size)."""
_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_JWT_PARTS = 3


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its lifetime. Times are in milliseconds since 1970."""

    value: str = field(repr=False)
    expires_ms: int | None = None
    """Expiry time, or None if unknown."""
    starts_ms: int | None = None
    """Issue time, or None if unknown."""

    def is_expired(self, now_ms: int) -> bool:
        """Return True if the token has expired."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


def parse_token(text: str, origin: str, fallback_expires_ms: int | None = None) -> Token:
    """Create a token from its text. The times in a JWT take precedence over the fallback.

    Args:
        text: the token without surrounding whitespace.
        origin: the origin of the token, which is shown in errors.
        fallback_expires_ms: expiry time if the token does not contain one.

    Raises:
        AuthenticationError: the text is not a bearer token. The message does not show the text.
    """
    if len(text) > MAX_TOKEN_CHARS:
        raise AuthenticationError(f"the token from {origin} has {len(text):,} characters")
    if not _B64TOKEN.fullmatch(text):
        raise AuthenticationError(
            f"the text from {origin} is not a bearer token: it contains invalid characters"
            if text
            else f"the token from {origin} is empty"
        )
    claims = _claims(text)
    expires, starts = json_number(claims, "exp"), json_number(claims, "iat")
    return Token(
        text,
        fallback_expires_ms if expires is None else int(expires * 1_000),
        None if starts is None else int(starts * 1_000),
    )


def _claims(text: str) -> dict[str, object]:
    """Return the unverified claims of a JWT, or an empty dict for any other token."""
    parts = text.split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        payload = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return {}
    return parse_json_object(payload) or {}


class TokenSource(ABC):
    """A source of tokens.

    Sources are frozen, so that connections with equal settings share a source.
    """

    @abstractmethod
    def fetch(self) -> Token:
        """Return a new token. This can block for a long time.

        Raises:
            AuthenticationError: no token is available, or the issuer rejects the request or is
                unreachable.
            ConfigError: a secret cannot be found on this host.
        """

    @property
    def cache_key(self) -> Hashable | None:
        """The cache key of the source's tokens, or None if fetching is too cheap for a cache."""
        return None
