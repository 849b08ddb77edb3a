"""The time limit of a call, and the durations of its parts."""

from spark_kafka_sink.exactly_once.steps.call_timer import CallTimer
from tests.support.clock import ManualClock


def test_blocks_are_timed_in_their_order() -> None:
    clock = ManualClock()
    timer = CallTimer(clock, 60)
    for name, seconds in (("fence", 0.25), ("read", 0.5), ("fence", 1.0)):
        with timer.measure(name):
            clock.advance(seconds)
    assert timer.timings == (("fence", 250.0), ("read", 500.0), ("fence", 1000.0))


def test_time_limits_are_at_most_max_block_ms() -> None:
    clock = ManualClock()
    timer = CallTimer(clock, 60)
    assert timer.deadline == timer.deadline_in(90) == clock.monotonic() + 60
    assert timer.deadline_in(10) == clock.monotonic() + 10
    clock.advance(60)
    assert timer.is_overdue
    timer.restart()
    assert not timer.is_overdue
