"""The durations of a driver's steps."""

from spark_kafka_sink.exactly_once.steps.stopwatch import Stopwatch
from tests.support.clock import ManualClock


def test_steps_are_timed_in_their_order() -> None:
    clock = ManualClock()
    watch = Stopwatch(clock.monotonic)
    for name, seconds in (("fence", 0.25), ("read", 0.5), ("fence", 1.0)):
        with watch.step(name):
            clock.advance(seconds)
    assert watch.steps == (("fence", 250.0), ("read", 500.0), ("fence", 1000.0))
