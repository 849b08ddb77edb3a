"""Offsets of time zones against ``java.time``, and the host's zone against a JVM's."""

import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from spark_kafka_sink.common.time_zones import system_zone, utc_offsets
from tools.checks.needs import find_java
from tools.support.java import Jvm

OFFSETS = ("Z", "+8", "-09", "+05:30", "-0330", "+10:20:30", "UTC+1", "GMT-11:30", "UT")
INSTANTS = np.array(
    [
        int(datetime(year, month, 15, 3, tzinfo=UTC).timestamp()) * 1_000_000
        for year in (1985, 2024, 2060)
        for month in (1, 4, 7, 11)
    ]
)
PROGRAM = """
class Zone {
    public static void main(String[] arguments) {
        var zone = java.util.TimeZone.getDefault();
        System.out.println(zone.getOffset(0) + " " + zone.getOffset(1720000000000L));
    }
}
"""
HOST_ZONES = (
    "Europe/Berlin",
    ":America/New_York",
    "posix/Asia/Tokyo",
    "/usr/share/zoneinfo/Asia/Tokyo",
    "CET-1CEST,M3.5.0,M10.5.0/3",
    "PST",
    "EST5EDT",
    "GMT+2",
    "GMT+5:5",
    "UTC+2",
    "<+0530>-5:30",
    ":",
    "Mars/Base",
)


def test_offsets_of_all_zones_that_spark_accepts(jvm: Jvm) -> None:
    java = jvm.packages.java.time
    short = dict(java.ZoneId.SHORT_IDS)
    known = sorted(
        zone_id for zone_id in java.ZoneId.getAvailableZoneIds() if "SystemV" not in zone_id
    )
    for name in [*known[::8], *short, *OFFSETS]:
        rules = java.ZoneId.of(name, java.ZoneId.SHORT_IDS).getRules()
        instants = [
            java.Instant.ofEpochSecond(int(microseconds) // 1_000_000) for microseconds in INSTANTS
        ]
        expected = [rules.getOffset(instant).getTotalSeconds() for instant in instants]
        assert np.broadcast_to(utc_offsets(INSTANTS, name), 12).tolist() == expected, name


@pytest.fixture
def set_zone() -> Iterator[Callable[[str], None]]:
    """Return a function that changes this process's time zone."""
    with pytest.MonkeyPatch.context() as patch:

        def set_zone(name: str) -> None:
            patch.setenv("TZ", name)
            time.tzset()

        yield set_zone
    time.tzset()


def test_zone_of_the_host(tmp_path: Path, set_zone: Callable[[str], None]) -> None:
    source = tmp_path / "Zone.java"
    source.write_text(PROGRAM)
    java = [find_java() or "java", "-XX:TieredStopAtLevel=1"]
    compiler = [*java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", str(tmp_path)]
    subprocess.run([*compiler, str(source)], check=True)
    program = [*java, "-cp", str(tmp_path), "Zone"]
    for name in HOST_ZONES:
        set_zone(name)
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        expected = done.stdout.split()
        micros = np.array([0, 1_720_000_000_000_000])
        offsets = np.broadcast_to(utc_offsets(micros, system_zone()), 2)
        assert [str(offset * 1000) for offset in offsets] == expected, name
