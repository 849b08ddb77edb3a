"""Calls on real threads: concurrent, hanging, repeated and more than there are threads."""

import threading
from collections.abc import Callable, Iterator
from threading import Event, Semaphore
from typing import Any

import pytest

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.kafka.client.channel.background import BackgroundCalls, CallResult
from spark_kafka_sink.kafka.client.network_client import MAX_LOGIN_THREADS

WAIT_TIMEOUT_S = 10.0


@pytest.fixture
def released() -> Iterator[Event]:
    """An event that is set at the end, so that no thread remains."""
    event = Event()
    yield event
    event.set()


def thread_name() -> bytes:
    return threading.current_thread().name.encode()


class WaitingCalls:
    """Runs calls, and waits for their results."""

    def __init__(self) -> None:
        self.threads = BackgroundCalls("kafkaprod-login", MAX_LOGIN_THREADS)
        self._woken = Semaphore(0)

    def run(self, owner: object, call: Callable[[], Any]) -> None:
        self.threads.run(owner, call, self._woken.release)

    def wait(self) -> list[CallResult]:
        """Return the results after the next wakeup."""
        assert self._woken.acquire(timeout=WAIT_TIMEOUT_S)
        return self.threads.take_results()


def test_call_runs_in_another_thread() -> None:
    calls, owner = WaitingCalls(), object()
    calls.run(owner, thread_name)
    (result,) = calls.wait()
    assert result.owner is owner
    assert (result.value, result.error) == (b"kafkaprod-login", None)
    assert "kafkaprod-login" not in repr(result)
    assert calls.threads.take_results() == []


def test_error_is_a_result() -> None:
    calls, error = WaitingCalls(), ValueError("no")

    def fail() -> bytes:
        raise error

    calls.run("owner", fail)
    (result,) = calls.wait()
    assert (result.value, result.error) == (None, error)


class Panic(BaseException):
    """Not an Exception, like the panic of a library in Rust."""


def test_panic_is_a_result_and_frees_its_thread() -> None:
    calls = WaitingCalls()

    def fail() -> bytes:
        raise Panic

    for _ in range(MAX_LOGIN_THREADS + 1):
        calls.run("owner", fail)
        (result,) = calls.wait()
        assert isinstance(result.error, Panic)
        assert isinstance(result.failure, AuthenticationError)


def test_canceled_call_is_not_run(released: Event) -> None:
    calls, executed = WaitingCalls(), []
    for number in range(MAX_LOGIN_THREADS):
        calls.run(number, lambda: released.wait(WAIT_TIMEOUT_S) and b"late")
    calls.run("obsolete", lambda: executed.append("obsolete"))
    calls.run("current", lambda: executed.append("current"))
    calls.threads.cancel("obsolete")
    calls.threads.cancel(0)  # It is running, so its result is still expected.
    calls.run("obsolete", lambda: executed.append("repeated"))
    released.set()
    results: list[CallResult] = []
    while len(results) < MAX_LOGIN_THREADS + 2:
        results += calls.wait()
    assert executed == ["current", "repeated"]


def test_hanging_call_blocks_no_other(released: Event) -> None:
    calls = WaitingCalls()
    calls.run("slow", lambda: released.wait(WAIT_TIMEOUT_S) and b"late")
    calls.run("fast", lambda: b"soon")
    assert [result.owner for result in calls.wait()] == ["fast"]
    released.set()
    assert [result.value for result in calls.wait()] == [b"late"]


def test_threads_are_limited_and_queued_calls_follow(released: Event) -> None:
    calls, begun = WaitingCalls(), Semaphore(0)

    def wait() -> bytes:
        begun.release()
        released.wait(WAIT_TIMEOUT_S)
        return b"done"

    for number in range(MAX_LOGIN_THREADS + 3):
        calls.run(number, wait)
    for _ in range(MAX_LOGIN_THREADS):
        assert begun.acquire(timeout=WAIT_TIMEOUT_S)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("kafkaprod-login") == MAX_LOGIN_THREADS
    assert not begun.acquire(blocking=False)
    released.set()
    results: list[CallResult] = []
    while len(results) < MAX_LOGIN_THREADS + 3:
        results += calls.wait()
    assert {result.owner for result in results} == set(range(MAX_LOGIN_THREADS + 3))


def test_call_of_a_waiting_owner_is_not_repeated(released: Event) -> None:
    calls, executed = WaitingCalls(), []

    def wait() -> bytes:
        executed.append(1)
        released.wait(WAIT_TIMEOUT_S)
        return b"done"

    for _ in range(3):
        calls.run("same", wait)
    released.set()
    assert [result.value for result in calls.wait()] == [b"done"]
    assert executed == [1]
    calls.run("same", wait)
    assert [result.value for result in calls.wait()] == [b"done"]
    assert executed == [1, 1]


def test_process_without_free_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = WaitingCalls()
    monkeypatch.setattr(threading.Thread, "start", start)
    calls.run("one", lambda: b"")
    (result,) = calls.wait()
    assert isinstance(result.error, OSError)
    assert "can't start new thread" in str(result.error)
