"""The time limit of a call."""

from spark_kafka_sink.exactly_once.steps.call_timer import CallTimer
from tests.support.clock import ManualClock


def test_time_limits_are_at_most_max_block_ms() -> None:
    clock = ManualClock()
    timer = CallTimer(clock, 60)
    assert timer.deadline == timer.deadline_in(90) == clock.monotonic() + 60
    assert timer.deadline_in(10) == clock.monotonic() + 10
    clock.advance(60)
    assert timer.is_overdue
    timer.restart()
    assert not timer.is_overdue
