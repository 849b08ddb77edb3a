"""Mask a client's secret in the response of an issuer.

An issuer's error response can contain parts of the request: the Authorization header, which
contains id and secret in base64, or a form, in which they are percent-encoded. `mask_secret`
removes the secret from such a text in each of these encodings.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import TYPE_CHECKING
from urllib.parse import quote_plus, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Iterator

MASK = "***"
MAX_TEXT_LENGTH = 4_000
"""Maximum number of characters of a text that are retained."""
_MIN_SECRET_LENGTH = 4
"""Minimum length in characters of a secret that is searched for in encoded text. A shorter secret
would match almost any text that resembles base64.
"""
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{4,}")
_STANDARD_BASE64 = str.maketrans("-_", "+/")
_MAX_DEPTH = 3
"""Maximum number of nested encodings, such as base64 of percent-encoded text."""


def mask_secret(text: str, client_id: str, secret: str) -> str:
    """Return the start of the text with the secret masked.

    A secret in clear text is replaced. If the secret is encoded, the whole word that contains it is
    replaced.
    """
    if not secret:
        return text[:MAX_TEXT_LENGTH]
    needles = [f"{client_id}:{secret}", f"{quote_plus(client_id)}:{quote_plus(secret)}"]
    if len(secret) >= _MIN_SECRET_LENGTH:
        needles.append(secret)
    words = re.split(r"(\s+)", text[:MAX_TEXT_LENGTH].replace(secret, MASK))
    return "".join(MASK if _contains_any(word, needles) else word for word in words)


def _contains_any(text: str, needles: list[str], depth: int = _MAX_DEPTH) -> bool:
    """Return True if the text, or one of its decodings, contains a needle."""
    if any(needle in text for needle in needles):
        return True
    return depth > 0 and any(
        _contains_any(decoded, needles, depth - 1) for decoded in _decodings(text)
    )


def _decodings(text: str) -> Iterator[str]:
    """Yield possible decodings of a text, of which some can be meaningless."""
    if "%" in text or "+" in text:
        yield unquote_plus(text)
    if "%" in text:
        yield unquote_plus(text.replace("+", "%2B"))
    for run in _BASE64.findall(text):
        digits = run.translate(_STANDARD_BASE64)
        # The word's first characters might not be part of the encoded text.
        for start in range(min(4, len(digits) - 3)):
            yield from _decode_base64(digits[start:])


def _decode_base64(digits: str) -> Iterator[str]:
    whole = digits[: len(digits) - 1] if len(digits) % 4 == 1 else digits
    try:
        yield b64decode(whole + "=" * (-len(whole) % 4)).decode(errors="replace")
    except binascii.Error:
        return
