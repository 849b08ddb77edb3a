"""The timestamp column as milliseconds since 1970, in the session's time zone where it has none."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.errors import ColumnError
from spark_kafka_sink.producer.row_errors import RowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.spark.row_checks import RowChecks

ZONE_SETTING = "spark.sql.session.timeZone"
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?", re.ASCII)
_LOCALTIME = Path("/etc/localtime")
_ZONES = "zoneinfo/"


def read_timestamps(
    column: pa.Array[Any], checks: RowChecks, now_ms: int, zone: str | None
) -> NDArray[np.int64]:
    """Milliseconds since 1970 of n rows, shape (n,); a null timestamp is the time of writing.

    One before 1970 is an error of its row, as for Java's producer (``ProducerRecord``): to Kafka -1
    means that there is none. It becomes the time of writing, as the row may be a dead letter.

    Args:
        column: TIMESTAMP, or TIMESTAMP_NTZ, which Arrow knows by its missing zone.
        checks: where errors go.
        now_ms: the time of writing.
        zone: the zone of a TIMESTAMP_NTZ; None for this machine's.
    """
    if column.type.tz is None:
        micros = _instants(column.cast(pa.timestamp("us")), zone or system_zone())
    else:
        micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    filled = np.asarray(micros.fill_null(now_ms * 1000))
    millis: NDArray[np.int64] = np.floor_divide(filled, 1000)
    early = np.flatnonzero(millis < 0)
    if len(early):
        checks.found(
            early,
            RowError.NEGATIVE_TIMESTAMP,
            f"a timestamp before 1970 ({int(millis[early[0]])} ms) in",
            "Kafka has no such timestamps; use null for the time of writing",
        )
        millis[early] = now_ms
    return millis


def _instants(local: Any, zone: str) -> Any:
    """Microseconds since 1970 of local times, as Spark casts them to TIMESTAMP.

    A time that comes twice is the first; one that a change of clocks skips counts on from before
    it (``java.time.ZonedDateTime.ofLocal``), so the offset is the one just before the change.
    """
    micros = local.cast(pa.int64())
    fixed = _fixed_offset(zone)
    if fixed is not None:
        return pc.subtract(micros, fixed)
    try:
        near = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    except pa.ArrowInvalid:
        raise ColumnError(
            f"the time zone {zone!r} of the session is not known here, and column `timestamp` has "
            "none of its own",
            hint=f"set {ZONE_SETTING} to a name such as Europe/Berlin, or cast to TIMESTAMP",
        ) from None
    offset = pc.subtract(pc.local_timestamp(near).cast(pa.int64()), near.cast(pa.int64()))
    return pc.subtract(micros, offset)


def _fixed_offset(zone: str) -> int | None:
    """Microseconds that a zone is ahead of UTC if its name says so, as in "GMT+1"; else None."""
    if zone == "Z":
        return 0
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return None
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    ahead = (hours * 3600 + minutes * 60 + seconds) * 1_000_000
    return -ahead if found[1] == "-" else ahead


def system_zone() -> str:
    """The name of this machine's time zone, where a JVM looks for it; UTC without one."""
    named = os.environ.get("TZ", "").removeprefix(":")
    if named:
        return named
    target = str(_LOCALTIME.resolve())
    return target.split(_ZONES, 1)[1] if _ZONES in target else "UTC"
