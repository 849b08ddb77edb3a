"""Fixtures for all unit tests: a producer without a network, and a host without time zones."""

import sys
from collections.abc import Iterator
from zoneinfo import ZoneInfo, reset_tzpath

import pytest

from spark_kafka_sink.common import time_zones
from tests.support.harness.world import World, world


@pytest.fixture
def sim() -> Iterator[World]:
    """Return a world with one broker and the topic `t` with four partitions."""
    with world() as sim:
        yield sim


@pytest.fixture
def without_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the time zones of this host."""
    for name in [name for name in sys.modules if name.startswith("tzdata")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tzdata", None)
    reset_tzpath(to=())
    for function in (time_zones._zone_info, time_zones._offset_changes):
        function.cache_clear()  # Other tests of this process have read zones.
    ZoneInfo.clear_cache()
    yield
    reset_tzpath()
