"""`run_with_timeout`: results, errors and calls that do not return."""

import threading
import time
from concurrent.futures import Future, wait
from contextlib import suppress
from threading import Event, Thread

import pytest

from spark_kafka_sink.common import time_limit
from spark_kafka_sink.common.time_limit import run_with_timeout


def end_threads() -> None:
    """Wait for the threads of calls that were abandoned."""
    for thread in threading.enumerate():
        if thread.name == "kafkaprod-deadline":
            thread.join(60)


def test_result_of_the_call() -> None:
    assert run_with_timeout(60, "returns", lambda: 7) == 7


def test_exception_of_the_call() -> None:
    with pytest.raises(KeyError, match="seven"):
        run_with_timeout(60, "raises", lambda: dict[str, int]()["seven"])


def test_timeout_raised_by_the_call_is_not_a_hanging_call() -> None:
    def call() -> None:
        raise TimeoutError("its own")

    for _ in range(2):
        with pytest.raises(TimeoutError, match="its own"):
            run_with_timeout(60, "own", call)


@pytest.mark.parametrize("fails", [False, True])
def test_call_that_ends_at_the_limit_has_ended(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    class SlowFuture(Future[int]):
        """A future whose waiting thread wakes up at the limit, but runs after the call's end."""

        def result(self, timeout: float | None = None) -> int:
            if timeout is not None:
                wait([self], 60)
                raise TimeoutError
            return super().result()

    monkeypatch.setattr(time_limit, "Future", SlowFuture)
    if fails:
        with pytest.raises(KeyError, match="seven"):
            run_with_timeout(1, "limit", lambda: dict[str, int]()["seven"])
    else:
        assert run_with_timeout(1, "limit", lambda: 7) == 7
    assert run_with_timeout(1, "limit", lambda: 8) == 8


def test_hanging_call_is_abandoned_until_it_returns() -> None:
    gate = threading.Event()
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        run_with_timeout(0.05, "hangs", gate.wait)
    with pytest.raises(TimeoutError, match="earlier"):
        run_with_timeout(60, "hangs", lambda: 1)
    assert run_with_timeout(60, "another", lambda: 1) == 1
    gate.set()
    end_threads()
    assert run_with_timeout(60, "hangs", lambda: 1) == 1


def test_call_is_not_repeated_until_all_earlier_ones_have_returned() -> None:
    """Two callers may have started it at the same time."""
    gates = [Event(), Event()]

    def call(gate: Event) -> None:
        with suppress(TimeoutError):
            run_with_timeout(0.2, "both", lambda: gate.wait(30))

    callers = [Thread(target=call, args=(gate,)) for gate in gates]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for gate in gates:
        with pytest.raises(TimeoutError, match="an earlier attempt has not returned yet"):
            run_with_timeout(30, "both", time.monotonic)
        gate.set()
    end_threads()
    assert run_with_timeout(30, "both", lambda: "repeated") == "repeated"
