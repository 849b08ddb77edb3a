"""Bearer tokens (RFC 6750, RFC 7519), the protocol of their sources, and masking of secrets. Pure.

An issuer's error response may repeat the request: the Authorization header, which contains id and
secret in base64, or a form, in which they are percent-encoded. `masked` removes the secret from
such a text in any of these encodings.
"""

from __future__ import annotations

import binascii
import json
import math
import re
from base64 import b64decode, urlsafe_b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote_plus, unquote_plus

from spark_kafka_sink.common.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator


def object_in(text: str | bytes) -> dict[str, object] | None:
    """Parse a JSON object; return None if the text is not one, or is nested too deeply."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_under(found: dict[str, object], name: str) -> str | None:
    """Return the string under a name, or None if it is missing, empty or no string."""
    value = found.get(name)
    return value if isinstance(value, str) and value else None


def seconds_under(found: dict[str, object], name: str) -> float | None:
    """Return the number under a name, which some issuers send as a string of digits.

    Returns:
        The number, or None if it is missing, not a number, negative, or too large for a date.
    """
    value = found.get(name)
    if isinstance(value, str) and len(value) <= 20:
        value = int(value) if value.isascii() and value.isdigit() else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    seconds = float(value) if abs(value) < 1e15 else math.inf
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


MASK = "***"
LOOKED_AT = 4_000
"""Number of characters of a text that are kept; the rest is cut off."""
_SHORT = 4
"""Minimum length in characters of a secret to search for on its own in encoded text; a shorter one
would match almost any text that looks like base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}")
_STANDARD = str.maketrans("-_", "+/")
_DEPTH = 3
"""Maximum number of nested encodings, such as base64 of percent-encoded text."""


def masked(text: str, client_id: str, secret: str) -> str:
    """Return the start of the text with the secret masked.

    If the secret is in clear text, only the secret is replaced. If it is encoded, the whole word
    that contains it is replaced.
    """
    if not secret:
        return text[:LOOKED_AT]
    needles = [f"{client_id}:{secret}", f"{quote_plus(client_id)}:{quote_plus(secret)}"]
    if len(secret) >= _SHORT:
        needles.append(secret)
    words = re.split(r"(\s+)", text[:LOOKED_AT].replace(secret, MASK))
    return "".join(MASK if _holds(word, needles) else word for word in words)


def _holds(text: str, needles: list[str], depth: int = _DEPTH) -> bool:
    if any(needle in text for needle in needles):
        return True
    return depth > 0 and any(_holds(inner, needles, depth - 1) for inner in _decoded(text))


def _decoded(text: str) -> Iterator[str]:
    """Yield possible decodings of a text, which may be meaningless."""
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "%" in text:
        yield unquote_plus(text.replace("+", "%2B"))
    for run in _BASE64.findall(text):
        digits = run.translate(_STANDARD)
        for start in range(min(4, len(digits) - 3)):  # leading characters may not belong to it
            yield from _of_base64(digits[start:])


def _of_base64(digits: str) -> Iterator[str]:
    whole = digits[: len(digits) - 1] if len(digits) % 4 == 1 else digits
    try:
        yield b64decode(whole + "=" * (-len(whole) % 4)).decode(errors="replace")
    except binascii.Error:
        return


LARGEST = 256 * 1024
"""Maximum length of a token in characters. Kafka's brokers accept 512 KiB before authentication
(sasl.server.max.receive.size)."""

_B64TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
_JWT_PARTS = 3


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its lifetime; times are in milliseconds since 1970."""

    value: str = field(repr=False)
    expires_ms: int | None = None
    """Time of expiry; None if unknown."""
    starts_ms: int | None = None
    """Time of issue; None if unknown."""

    def expired(self, now_ms: int) -> bool:
        """Return True if the token has expired."""
        return self.expires_ms is not None and self.expires_ms <= now_ms


def token_of(text: str, place: str, fallback_expires_ms: int | None = None) -> Token:
    """Create a token from its text; the times in a JWT have precedence.

    Args:
        text: the token without surrounding whitespace.
        place: where the token comes from, for the error.
        fallback_expires_ms: time of expiry if the token does not contain one.

    Raises:
        AuthenticationError: the text is not a bearer token; the message does not show it.
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
    """Return a JWT's claims, which only the broker verifies; empty for any other token."""
    parts = text.split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        payload = urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
    except (binascii.Error, ValueError):
        return {}
    return object_in(payload) or {}


class TokenSource(Protocol):
    """A source of tokens; frozen, so that connections with the same settings share one."""

    @property
    def shared(self) -> Hashable | None:
        """The cache key of its tokens; None if they need no cache, as fetching costs nothing."""

    def fetch(self) -> Token:
        """Return a new token; may block for long.

        Raises:
            AuthenticationError: there is no token, or the issuer refuses it or is unreachable.
            ConfigError: a secret cannot be found on this host.
        """
