"""The progress of a write, and the datagrams of its tasks."""

import json

import pytest

from spark_kafka_sink.spark.reports.task_progress import TaskProgress, WaitsFor
from spark_kafka_sink.spark.reports.write_progress import ProgressSum

SILENCE_S = 10.0
ONE = TaskProgress(partition_id=0, task_attempt_id=1, rows=200, persisted=100, bytes_sent=2_000_000)
TWO = TaskProgress(
    partition_id=1, task_attempt_id=2, rows=50, persisted=50, waits_for=WaitsFor.KAFKA_ROOM
)


def test_datagram_round_trip() -> None:
    assert TaskProgress.decode(TWO.encode("secret"), "secret") == TWO


@pytest.mark.parametrize(
    "datagram",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        TWO.encode("another"),
        json.dumps({"token": "secret"}).encode(),
        TWO.encode("secret").replace(b"50", b'"x"'),
    ],
)
def test_foreign_datagrams_are_ignored(datagram: bytes) -> None:
    assert TaskProgress.decode(datagram, "secret") is None


def test_tasks_are_summed() -> None:
    total = ProgressSum()
    total.add(ONE, 100.0)
    total.add(TWO, 101.0)
    progress = total.total(102.0, SILENCE_S)
    assert (progress.rows, progress.persisted, progress.running, progress.ended) == (250, 150, 2, 0)
    assert progress.rate == 75.0
    assert str(progress) == (
        "2 s: 150 records acknowledged, 75/s, 2.0 MB; tasks: 2 running, 0 ended; 1 waits for rows "
        "from Spark; 1 waits for buffer memory, because Kafka is slower than Spark"
    )


def test_late_and_duplicate_datagrams_change_nothing() -> None:
    done = TaskProgress(partition_id=0, task_attempt_id=1, rows=300, persisted=300, done=True)
    total = ProgressSum()
    for progress in (ONE, done, done, ONE):
        total.add(progress, 1.0)
    summed = total.total(2.0, SILENCE_S)
    assert (summed.rows, summed.persisted, summed.running, summed.ended) == (300, 300, 0, 1)


def test_silent_task_is_not_running() -> None:
    total = ProgressSum()
    total.add(ONE, 1.0)
    assert total.total(1.0 + SILENCE_S, SILENCE_S).running == 0


def test_rate_is_that_of_the_last_seconds() -> None:
    total = ProgressSum()
    for second in range(100):
        records = 1000 if second < 50 else 1000 + (second - 50) * 10
        total.add(TaskProgress(partition_id=0, task_attempt_id=1, persisted=records), second)
        rate = total.total(second, SILENCE_S).rate
    assert rate == pytest.approx(10)


def test_first_rate_starts_with_the_first_task() -> None:
    total = ProgressSum()
    total.add(TaskProgress(partition_id=0, task_attempt_id=1, elapsed_ms=2000, persisted=100), 9.0)
    progress = total.total(9.001, SILENCE_S)
    assert progress.seconds == pytest.approx(2.001)
    assert progress.rate == pytest.approx(50, rel=0.01)


def test_interrupt_message_counts_running_tasks() -> None:
    total = ProgressSum()
    total.add(ONE, 1.0)
    message = total.total(2.0, SILENCE_S).interruption_message() or ""
    assert "tasks are still writing" in message
    assert "100 records acknowledged" in message
    assert total.total(1.0 + SILENCE_S, SILENCE_S).interruption_message() is None


def test_no_progress_before_the_first_task() -> None:
    assert ProgressSum().total(5.0, SILENCE_S).persisted == 0
