"""Login steps on real threads: concurrent, hanging and more than there are threads."""

from __future__ import annotations

import threading
from threading import Event, Semaphore
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.client.channel.authenticator import MAX_THREADS, LoginThreads, StepResult

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE = 10.0


@pytest.fixture
def released() -> Iterator[Event]:
    """An event that is set at the end, so that no thread remains."""
    event = Event()
    yield event
    event.set()


def _thread_name() -> bytes:
    return threading.current_thread().name.encode()


class Steps:
    """Running steps and the number of results."""

    def __init__(self) -> None:
        self.threads = LoginThreads()
        self._woken = Semaphore(0)

    def run(self, owner: object, step) -> None:  # type: ignore[no-untyped-def]
        self.threads.run(owner, step, self._woken.release)

    def wait(self) -> list[StepResult]:
        """Return the results after the next wakeup."""
        assert self._woken.acquire(timeout=PATIENCE)
        return self.threads.results()


def test_step_runs_in_another_thread() -> None:
    steps, owner = Steps(), object()
    steps.run(owner, _thread_name)
    (result,) = steps.wait()
    assert result.owner is owner
    assert (result.message, result.error) == (b"kafkaprod-login", None)
    assert "kafkaprod-login" not in repr(result)
    assert steps.threads.results() == []


def test_error_is_a_result() -> None:
    steps, error = Steps(), ValueError("no")

    def fail() -> bytes:
        raise error

    steps.run("owner", fail)
    (result,) = steps.wait()
    assert (result.message, result.error) == (None, error)


def test_hanging_step_blocks_no_other(released: Event) -> None:
    steps = Steps()
    steps.run("slow", lambda: released.wait(PATIENCE) and b"late")
    steps.run("fast", lambda: b"soon")
    assert [result.owner for result in steps.wait()] == ["fast"]
    released.set()
    assert [result.message for result in steps.wait()] == [b"late"]


def test_threads_are_limited_and_queued_steps_follow(released: Event) -> None:
    steps, begun = Steps(), Semaphore(0)

    def wait() -> bytes:
        begun.release()
        released.wait(PATIENCE)
        return b"done"

    for number in range(MAX_THREADS + 3):
        steps.run(number, wait)
    for _ in range(MAX_THREADS):
        assert begun.acquire(timeout=PATIENCE)
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("kafkaprod-login") == MAX_THREADS
    assert not begun.acquire(blocking=False)
    released.set()
    found: list[StepResult] = []
    while len(found) < MAX_THREADS + 3:
        found += steps.wait()
    assert {result.owner for result in found} == set(range(MAX_THREADS + 3))
