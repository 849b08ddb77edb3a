"""The thread of a write, without a Spark session."""

import signal
from collections.abc import Iterator
from threading import Semaphore, main_thread
from unittest.mock import Mock

import pytest

from spark_kafka_sink.spark import write


@pytest.fixture
def interrupted_by_sigint() -> Iterator[None]:
    """Let SIGINT raise KeyboardInterrupt: processes that a shell starts with & ignore it."""
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, previous)


@pytest.mark.usefixtures("interrupted_by_sigint")
def test_job_that_is_submitted_after_ctrl_c_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark cancels only jobs that it already runs."""
    monkeypatch.setattr(write, "inheritable_thread_target", lambda _: lambda target: target)
    monkeypatch.setattr(write, "_CANCEL_INTERVAL_S", 0.01)
    cancelled, attempts = Semaphore(0), list[bool]()
    spark, frame = Mock(), Mock()
    spark.sparkContext.cancelJobsWithTag = lambda _: cancelled.release()

    def collect() -> list[object]:
        signal.pthread_kill(main_thread().ident or 0, signal.SIGINT)  # also while it waits
        attempts.extend(cancelled.acquire(timeout=10) for _ in range(2))
        raise RuntimeError("cancelled")

    frame.collect = collect
    with pytest.raises(KeyboardInterrupt):
        write._collect_in_thread(frame, spark, "tag")
    assert attempts == [True, True]
