"""Takes a client's secret out of what an issuer says, in whichever form it sends it back; pure.

An issuer's error may repeat the request: the Authorization header, which holds id and secret in
base64, or a form, where they are percent-encoded.
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
