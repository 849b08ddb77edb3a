"""transaction.timeout.ms: the warning at half of it, and its expiry."""

from __future__ import annotations

from spark_kafka_sink.producer.transactions.state import Elapsed, TransactionTimer


def test_time_counts_from_the_first_start() -> None:
    timer = TransactionTimer(60.0)
    assert timer.check(1_000.0) is Elapsed.NOTHING
    timer.start(10.0)
    timer.start(50.0)
    assert timer.check(39.9) is Elapsed.NOTHING
    assert timer.check(40.0) is Elapsed.HALF
    assert timer.check(41.0) is Elapsed.NOTHING
    assert timer.check(70.0) is Elapsed.ALL
    assert timer.check(71.0) is Elapsed.ALL


def test_two_phase_commit_has_no_timeout() -> None:
    timer = TransactionTimer(None)
    timer.start(0.0)
    assert timer.check(1e9) is Elapsed.NOTHING
