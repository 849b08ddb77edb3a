"""Which topics a consumer of the classic protocol subscribes to, as its JoinGroup says."""

from __future__ import annotations

import struct

_COUNTS = struct.Struct(">hi")
_LENGTH = struct.Struct(">h")


def subscribed_topics(metadata: bytes) -> list[str] | None:
    """Read the topics of a ConsumerProtocolSubscription; None where it is something else.

    All versions begin as version 0 does: the version, then the names.
    """
    try:
        _, count = _COUNTS.unpack_from(metadata)
        at, names = _COUNTS.size, []
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size + size
            if size < 0 or at > len(metadata):
                return None
            names.append(metadata[at - size : at].decode())
    except (struct.error, UnicodeDecodeError):
        return None
    return names
