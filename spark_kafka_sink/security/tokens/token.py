"""A bearer token (RFC 6750), and what it says of itself where it is a JWT (RFC 7519)."""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.security.tokens.json_text import object_in, seconds_under

LARGEST = 256 * 1024
"""Characters. Kafka's brokers take 512 KiB before authentication (sasl.server.max.receive.size)."""

_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_JWT_PARTS = 3


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its life, in milliseconds since 1970."""

    value: str = field(repr=False)
    expires_ms: int | None = None
    """None where nobody knows."""
    starts_ms: int | None = None
    """When it was issued, where it says so."""

    def expired(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


def token_of(text: str, place: str, fallback_expires_ms: int | None = None) -> Token:
    """A token from its text; a JWT's own times are believed first.

    Args:
        text: without whitespace around it.
        place: where it comes from, for the error.
        fallback_expires_ms: its end, where the token does not tell.

    Raises:
        AuthenticationError: no bearer token looks like that; the message does not repeat it.
    """
    if len(text) > LARGEST:
        raise AuthenticationError(f"the token from {place} has {len(text):,} characters")
    if not _B64TOKEN.fullmatch(text):
        raise AuthenticationError(
            f"what comes from {place} is no bearer token: it has characters that none has"
            if text
            else f"the token from {place} is empty"
        )
    claims = _claims(text)
    expires, starts = seconds_under(claims, "exp"), seconds_under(claims, "iat")
    return Token(
        text,
        fallback_expires_ms if expires is None else int(expires * 1_000),
        None if starts is None else int(starts * 1_000),
    )


def _claims(text: str) -> dict[str, object]:
    """A JWT's claims, unverified: that is the broker's part. Empty for any other token."""
    parts = text.split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        payload = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return {}
    return object_in(payload) or {}
