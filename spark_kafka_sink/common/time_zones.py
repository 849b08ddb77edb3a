"""Time zones with a fixed offset, as Java and Spark spell them."""

from __future__ import annotations

import re

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)


def fixed_offset(zone: str) -> int | None:
    """Return the UTC offset of a zone such as "GMT+1" in microseconds; None if not fixed."""
    if zone == "Z":
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    ahead = (hours * 3600 + minutes * 60 + seconds) * 1_000_000
    return -ahead if found[1] == "-" else ahead
