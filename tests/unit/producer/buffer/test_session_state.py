"""The waits of the writer, and the errors that end them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from spark_kafka_sink.common.clock import SystemClock
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.producer.buffer.session_state import SessionState
from tests.support.clock import ManualClock

SOON = 5.0


def nothing() -> None: ...


@pytest.fixture
def state() -> SessionState:
    return SessionState(SystemClock(), nothing, lambda _: None)


@pytest.fixture
def writer() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_wait_ends_on_notification(state: SessionState, writer: ThreadPoolExecutor) -> None:
    waits, done = Event(), Event()

    def is_done() -> bool:
        waits.set()
        return done.is_set()

    waiting = writer.submit(state.wait_for, is_done, SOON)
    assert waits.wait(SOON)
    done.set()
    state.wake_writer()
    assert waiting.result(SOON)


def test_first_error_ends_all_waits(state: SessionState, writer: ThreadPoolExecutor) -> None:
    first = DeliveryError("first")
    waiting = writer.submit(state.wait_for, lambda: False, SOON)
    state.end(first)
    state.end(DeliveryError("second"))
    assert waiting.exception(SOON) is first
    assert state.error is first
    for call in (state.raise_error, lambda: state.wait_for(lambda: True, SOON)):
        with pytest.raises(DeliveryError) as caught:
            call()
        assert caught.value is first


def test_flush_fails_if_no_batch_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time without progress begins after a completed batch and after a throttle pause."""
    clock = ManualClock()
    state = SessionState(clock, nothing, lambda _: None)
    state.add_incomplete(3)
    progress: Iterator[Callable[[], None]] = iter(
        [state.complete, lambda: state.add_throttle_pause(200)]
    )

    def wait(_: float) -> bool:
        clock.advance(0.5)
        next(progress, nothing)()
        return True

    monkeypatch.setattr(state.changed, "wait", wait)
    with pytest.raises(DeliveryError, match="2 batches made no progress") as caught:
        state.wait_until_complete(2.0)
    assert clock.monotonic() == 3.5  # the pause ends at 1.2 s
    assert state.error is caught.value
