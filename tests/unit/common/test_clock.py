from __future__ import annotations

import time
from contextlib import suppress
from threading import Event, Thread

import pytest

from spark_kafka_sink.common.clock import Clock, SystemClock, within
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


def test_call_is_not_repeated_until_all_earlier_ones_have_returned() -> None:
    """Two callers may have started it at the same time."""
    gates = [Event(), Event()]

    def call(gate: Event) -> None:
        with suppress(TimeoutError):
            within(0.2, "both", lambda: gate.wait(30))

    callers = [Thread(target=call, args=(gate,)) for gate in gates]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for gate in gates:
        with pytest.raises(TimeoutError, match="an earlier attempt has not returned yet"):
            within(30, "both", time.monotonic)
        gate.set()
    while True:
        with suppress(TimeoutError):
            assert within(30, "both", lambda: "repeated") == "repeated"
            break
