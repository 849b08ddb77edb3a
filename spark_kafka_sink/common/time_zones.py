"""Time zones with the names that Spark accepts: their UTC offsets, and the zone of this host."""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]

ZONE_SETTING = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d)|:?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_ETC = re.compile(r"Etc/GMT([+-])(\d{1,2})", re.ASCII)
"""Zones named as in POSIX: Etc/GMT+5 is five hours behind UTC."""
_UTC_NAMES = frozenset(
    f"{area}{name}"
    for area in ("", "Etc/")
    for name in ("UTC", "GMT", "UCT", "Universal", "Zulu", "Greenwich", "GMT0")
) | {"UT", "Z"}
_SHORT_IDS = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
"""Source: ``java.time.ZoneId.SHORT_IDS``, which Spark uses."""

_DAY = 86_400
_MIN_TIME_S = -5_364_662_400
"""1800-01-01, in seconds since 1970. No zone changed its offset before this time."""
_CYCLE = 146_097 * _DAY
"""Length of 400 years in seconds. After 2100, the offset changes of each zone repeat with this
period.
"""
_MAX_TIME_S = 4_102_444_800 + _CYCLE
"""2500-01-01, in seconds since 1970."""
_SPAN = 400 * _DAY
"""Length in seconds of the time spans for which offset changes are computed and cached."""

_LOCALTIME = Path("/etc/localtime")
_DATABASE = Path("/usr/share/zoneinfo")
_IN_DATABASE = "zoneinfo/"
_NOT_COMPARED = frozenset({"posix", "right", "posixrules", "localtime", "ROC"})
"""Entries of the database that a JVM does not compare with a copy in /etc/localtime."""
_REGION = re.compile(
    r"(Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Brazil|Canada|Chile|Etc|Europe"
    r"|Indian|Mexico|Pacific|US)/[A-Z].*"
)
"""Names that a JVM knows, with or without a database on this host. Some systems have the old ones,
such as US/Eastern, in a package of their own.
"""
_CUSTOM_ZONE = re.compile(r"GMT[+-](?:[01]?\d|2[0-3])(?::?[0-5]\d)?", re.ASCII)


def _fixed_offset(zone: str) -> int | None:
    """Return the UTC offset of a zone such as "GMT+1" in seconds; None if it is not fixed."""
    zone = _SHORT_IDS.get(zone, zone)
    if zone in _UTC_NAMES:
        return 0
    match = _ETC.fullmatch(zone)
    if match is not None:
        return int(match[2]) * (-3600 if match[1] == "+" else 3600)
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return None
    hours, minute, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    ahead = hours * 3600 + (minute + minutes) * 60 + seconds
    return -ahead if match[1] == "-" else ahead


def check_zone(zone: str) -> None:
    """Check that this host has the zone's offsets.

    Raises:
        ConfigError: this host does not have the zone's offsets.
    """
    if _fixed_offset(zone) is None:
        _zone_info(zone)


def is_known_zone(zone: str) -> bool:
    """Return True if this host has the zone's offsets."""
    try:
        check_zone(zone)
    except ConfigError:
        return False
    return True


def utc_offsets(micros: Numbers, zone: str, *, is_local: bool = False) -> Numbers:
    """Return the zone's UTC offset in seconds at each instant; shape (1,) if all are equal.

    Arrow's own conversion ignores summer time after 2037, so offset changes are read from
    `zoneinfo`.

    Args:
        micros: microseconds since 1970; UTC, or local times.
        zone: the name of the zone.
        is_local: True for local times. A local time that occurs twice or never has the offset
            before the change, as in Spark's cast (``java.time.ZonedDateTime.ofLocal``).

    Raises:
        ConfigError: the zone is unknown on this host.
    """
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return np.array([fixed], np.int64)
    if not len(micros):
        return np.zeros(1, np.int64)
    seconds = np.maximum(micros // 1_000_000, _MIN_TIME_S)
    if int(seconds.max()) >= _MAX_TIME_S:
        seconds -= np.maximum((seconds - _MAX_TIME_S) // _CYCLE + 1, 0) * _CYCLE
    first, last = int(seconds.min()), int(seconds.max())
    margin = _DAY if is_local else 0
    spans: Iterable[int] = range((first - margin) // _SPAN, (last + margin) // _SPAN + 1)
    if last - first > 20 * _SPAN:  # do not search centuries for their changes if few are needed
        ends = np.concatenate((seconds - margin, seconds + margin))
        spans = np.unique(ends // _SPAN).tolist()
    changes = [change for span in spans for change in _offset_changes(zone, span)]
    starts = np.array([start for start, _ in changes])
    offsets = np.array([offset for _, offset in changes])
    if is_local:
        starts += np.maximum(offsets, np.concatenate((offsets[:1], offsets[:-1])))
    low, high = np.searchsorted(starts, (first, last), "right")
    if (offsets[low - 1 : high] == offsets[low - 1]).all():
        return offsets[low - 1 : low]
    result: Numbers = offsets[np.searchsorted(starts, seconds, "right") - 1]
    return result


@lru_cache(maxsize=4096)
def _offset_changes(zone: str, span: int) -> tuple[tuple[int, int], ...]:
    """Return the times of offset changes and the new offsets, both in seconds.

    The first entry is the start of the span.
    """
    start = span * _SPAN
    changes = [(start, _offset_at(zone, start))]
    for day in range(start, start + _SPAN, _DAY):
        offset = _offset_at(zone, day + _DAY)
        if offset != changes[-1][1]:
            changes.append((_time_of_change(zone, day, changes[-1][1]), offset))
    return tuple(changes)


def _time_of_change(zone: str, low: int, before: int) -> int:
    """Return the second at which the offset changes, within the day that starts at `low`."""
    high = low + _DAY
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _offset_at(zone, middle) == before else (low, middle)
    return high


def _offset_at(zone: str, seconds: int) -> int:
    instant = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    offset = instant.astimezone(_zone_info(zone)).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)


@lru_cache(maxsize=64)
def _zone_info(zone: str) -> ZoneInfo:
    try:
        return ZoneInfo(_SHORT_IDS.get(zone, zone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(
            f"the session time zone {zone!r} is unknown on this host",
            hint=f"Install the Python package tzdata on all hosts, or set {ZONE_SETTING} to UTC or "
            "an offset such as +01:00.",
        ) from None


def system_zone() -> str:
    """Return the default time zone of a JVM on this host, which might lack its offsets.

    A JVM replaces zones that it does not know, such as POSIX rules in TZ, by their current offset.
    Source: ``TimeZone_md.c``, ``java.util.TimeZone.setDefaultZone``.
    """
    name = (os.environ.get("TZ") or _host_zone()).removeprefix(":").removeprefix("posix/")
    is_known = name in _UTC_NAMES or name in _SHORT_IDS
    if is_known or _CUSTOM_ZONE.fullmatch(name) or _REGION.fullmatch(name):
        return name
    try:
        if not name.startswith("right/"):
            _zone_info(name)
            return name
    except ConfigError:
        pass
    minutes = time.localtime().tm_gmtoff // 60
    if not 0 < abs(minutes) < 24 * 60:
        return "GMT"
    return f"GMT{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}:{abs(minutes) % 60:02d}"


def _host_zone() -> str:
    """Return the name of the zone of /etc/localtime, which can be a link or a copy."""
    target = str(_LOCALTIME.resolve())
    if _IN_DATABASE in target:
        return target.split(_IN_DATABASE, 1)[1]
    try:
        content = _LOCALTIME.read_bytes()
    except OSError:
        return "UTC"
    for path in sorted(_DATABASE.rglob("*")):
        name = path.relative_to(_DATABASE)
        is_compared = name.parts[0] not in _NOT_COMPARED and path.is_file()
        if is_compared and path.stat().st_size == len(content) and path.read_bytes() == content:
            return str(name)
    return "UTC"
