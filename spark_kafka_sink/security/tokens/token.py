"""Bearer tokens (RFC 6750, RFC 7519) and their sources; secrets masked in responses.

Takes a client's secret out of what an issuer says, in whichever form it sends it back; pure.

An issuer's error may repeat the request: the Authorization header, which holds id and secret in
base64, or a form, where they are percent-encoded.
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
    """The JSON object that a text is, or None: not JSON, too deep, or something else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def text_under(found: dict[str, object], name: str) -> str | None:
    """The non-empty string under a name."""
    value = found.get(name)
    return value if isinstance(value, str) and value else None


def seconds_under(found: dict[str, object], name: str) -> float | None:
    """The number under a name, which may be a string of digits, as some issuers send it.

    Returns:
        None where it is missing, no number, negative, or beyond any calendar.
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
"""Characters of a text; the rest is cut off."""
_SHORT = 4
"""Characters: a shorter secret alone would be found in nearly all that looks like base64."""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}")
_STANDARD = str.maketrans("-_", "+/")
_DEPTH = 3
"""Encodings around each other, such as base64 of what is percent-encoded."""


def masked(text: str, client_id: str, secret: str) -> str:
    """The start of the text, without the secret.

    Where it stands as it is, it alone is replaced; where it is encoded, all up to the next space.
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
    """What a text may be the encoding of; nothing of it need make sense."""
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "%" in text:
        yield unquote_plus(text.replace("+", "%2B"))
    for run in _BASE64.findall(text):
        digits = run.translate(_STANDARD)
        for start in range(min(4, len(digits) - 3)):  # what stands before it may be no part of it
            yield from _of_base64(digits[start:])


def _of_base64(digits: str) -> Iterator[str]:
    whole = digits[: len(digits) - 1] if len(digits) % 4 == 1 else digits
    try:
        yield b64decode(whole + "=" * (-len(whole) % 4)).decode(errors="replace")
    except binascii.Error:
        return


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


class TokenSource(Protocol):
    """Where tokens come from: frozen, so that connections with the same settings share one."""

    @property
    def shared(self) -> Hashable | None:
        """Under what its tokens are kept for others; None where asking again costs nothing."""

    def fetch(self) -> Token:
        """A new token; may take long.

        Raises:
            AuthenticationError: there is none, or the issuer refuses it or can't be reached.
            ConfigError: a secret can't be found on this host.
        """
