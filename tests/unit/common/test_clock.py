"""The system clock and the tests' manual clock."""

import time

from spark_kafka_sink.common.clock import Clock, SystemClock


def test_system_clock_matches_the_machine() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.wall_ms() - time.time() * 1000) < 5_000
    first = clock.monotonic()
    assert clock.monotonic() >= first
