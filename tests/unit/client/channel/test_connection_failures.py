"""When it makes no sense to try any longer: pure decisions, with the clock passed in."""

from __future__ import annotations

from spark_kafka_sink.client.channel.connection_failures import (
    REPEATS,
    SECONDS,
    ConnectionFailures,
    Diagnosis,
    Verdict,
)
from spark_kafka_sink.common.errors import AuthenticationError

ONE, TWO = "one:1", "two:2"
REFUSED = Diagnosis("no", Verdict.REFUSED, AuthenticationError("no"))
MISMATCH = Diagnosis("what?", Verdict.MISMATCH, AuthenticationError("what?"))
PASSING = Diagnosis("later")


def test_the_only_server_refuses() -> None:
    failures = ConnectionFailures([ONE])
    failures.failed(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error
    assert failures.reasons == {ONE: "no"}


def test_each_bootstrap_server_has_its_turn() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.failed(ONE, REFUSED, 1.0)
    assert failures.fatal is None
    failures.failed(TWO, REFUSED, 1.1)
    assert failures.fatal is REFUSED.error


def test_one_that_refuses_does_not_matter_where_another_accepts() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.failed(ONE, REFUSED, 1.0)
    failures.worked(TWO)
    failures.failed(ONE, REFUSED, 2.0)
    assert failures.fatal is None
    assert failures.reasons == {ONE: "no"}


def test_a_password_is_not_tried_often() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.failed(TWO, PASSING, 1.0)
    for _ in range(REPEATS):
        assert failures.fatal is None
        failures.failed(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error


def test_a_slow_server_has_its_time() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(2 * REPEATS):
        failures.failed(ONE, REFUSED, 1.0)
    assert failures.fatal is None
    failures.failed(ONE, REFUSED, 1.0 + SECONDS)
    assert failures.fatal is REFUSED.error


def test_a_server_that_is_away_does_not_hide_one_that_refuses() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(REPEATS):
        failures.failed(TWO, PASSING, 1.0)
        failures.failed(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error


def test_later_a_refusal_must_repeat_and_last() -> None:
    failures = ConnectionFailures([ONE])
    failures.worked(ONE)
    for _ in range(10 * REPEATS):
        failures.failed(ONE, REFUSED, 10.0)
    assert failures.fatal is None
    failures.failed(ONE, REFUSED, 10.0 + SECONDS)
    assert failures.fatal is REFUSED.error


def test_later_a_broker_that_accepts_again_begins_anew() -> None:
    failures = ConnectionFailures([ONE])
    failures.worked(ONE)
    for at in range(100):
        failures.failed(ONE, REFUSED, at * SECONDS)
        failures.worked(ONE)
    assert failures.fatal is None
    failures.failed(ONE, REFUSED, 200 * SECONDS)
    failures.failed(ONE, REFUSED, 201 * SECONDS)
    assert failures.fatal is None


def test_a_broker_that_others_work_without_is_fatal_too() -> None:
    failures = ConnectionFailures([ONE])
    failures.worked(ONE)
    for at in range(REPEATS):
        failures.failed(TWO, REFUSED, at * SECONDS)
        failures.worked(ONE)
    assert failures.fatal is REFUSED.error


def test_a_mismatch_must_repeat_and_last_everywhere() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(REPEATS):
        failures.failed(ONE, MISMATCH, 0.0)
    failures.failed(ONE, MISMATCH, SECONDS)
    assert failures.fatal is None  # the other one may work
    for _ in range(REPEATS):
        failures.failed(TWO, PASSING, SECONDS)
    failures.failed(ONE, MISMATCH, SECONDS)
    assert failures.fatal is MISMATCH.error


def test_a_mismatch_is_a_restart_once_a_broker_has_worked() -> None:
    failures = ConnectionFailures([ONE])
    failures.worked(ONE)
    for at in range(100):
        failures.failed(ONE, MISMATCH, at * SECONDS)
    assert failures.fatal is None


def test_what_may_pass_is_waited_for() -> None:
    failures = ConnectionFailures([ONE])
    for at in range(100):
        failures.failed(ONE, PASSING, at * SECONDS)
    assert failures.fatal is None
