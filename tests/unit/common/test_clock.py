"""The system clock and the tests' manual clock."""

import time

import pytest

from spark_kafka_sink.common.clock import Clock, SystemClock
from tests.support.clock import ManualClock


def test_manual_clock_advances_only_on_request() -> None:
    clock: Clock = (manual := ManualClock(seconds=5.0, start_ms=1_000))
    assert (clock.monotonic(), clock.wall_ms()) == (5.0, 6_000)
    manual.advance(0.25)
    assert (clock.monotonic(), clock.wall_ms()) == (5.25, 6_250)


def test_manual_clock_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="backwards"):
        ManualClock().advance(-1)


def test_system_clock_matches_the_machine() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.wall_ms() - time.time() * 1000) < 5_000
    first = clock.monotonic()
    assert clock.monotonic() >= first
