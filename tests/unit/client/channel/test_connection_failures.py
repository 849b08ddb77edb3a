"""When it makes no sense to try any longer: pure decisions, with the clock passed in."""

from __future__ import annotations

from spark_kafka_sink.client.channel.connection_failures import (
    LASTING_S,
    REPEATED,
    ConnectionFailures,
    Diagnosis,
    Verdict,
)
from spark_kafka_sink.common.errors import AuthenticationError

ONE, TWO = "one:1", "two:2"
REFUSED = Diagnosis("no", Verdict.REJECTED, AuthenticationError("no"))
MISMATCH = Diagnosis("what?", Verdict.MISMATCH, AuthenticationError("what?"))
PASSING = Diagnosis("later")


def test_the_only_server_refuses() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error
    assert failures.reasons == {ONE: "no"}


def test_each_bootstrap_server_has_its_turn() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is None
    failures.record_failure(TWO, REFUSED, 1.1)
    assert failures.fatal is REFUSED.error


def test_one_that_refuses_does_not_matter_where_another_accepts() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.record_failure(ONE, REFUSED, 1.0)
    failures.record_success(TWO)
    failures.record_failure(ONE, REFUSED, 2.0)
    assert failures.fatal is None
    assert failures.reasons == {ONE: "no"}


def test_a_password_is_not_tried_often() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.record_failure(TWO, PASSING, 1.0)
    for _ in range(REPEATED):
        assert failures.fatal is None
        failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error


def test_a_slow_server_has_its_time() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(2 * REPEATED):
        failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is None
    failures.record_failure(ONE, REFUSED, 1.0 + LASTING_S)
    assert failures.fatal is REFUSED.error


def test_a_server_that_is_away_does_not_hide_one_that_refuses() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(REPEATED):
        failures.record_failure(TWO, PASSING, 1.0)
        failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error


def test_later_a_refusal_must_repeat_and_last() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for _ in range(10 * REPEATED):
        failures.record_failure(ONE, REFUSED, 10.0)
    assert failures.fatal is None
    failures.record_failure(ONE, REFUSED, 10.0 + LASTING_S)
    assert failures.fatal is REFUSED.error


def test_later_a_broker_that_accepts_again_begins_anew() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for at in range(100):
        failures.record_failure(ONE, REFUSED, at * LASTING_S)
        failures.record_success(ONE)
    assert failures.fatal is None
    failures.record_failure(ONE, REFUSED, 200 * LASTING_S)
    failures.record_failure(ONE, REFUSED, 201 * LASTING_S)
    assert failures.fatal is None


def test_a_broker_that_others_work_without_is_fatal_too() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for at in range(REPEATED):
        failures.record_failure(TWO, REFUSED, at * LASTING_S)
        failures.record_success(ONE)
    assert failures.fatal is REFUSED.error


def test_a_mismatch_must_repeat_and_last_everywhere() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(REPEATED):
        failures.record_failure(ONE, MISMATCH, 0.0)
    failures.record_failure(ONE, MISMATCH, LASTING_S)
    assert failures.fatal is None  # the other one may work
    for _ in range(REPEATED):
        failures.record_failure(TWO, PASSING, LASTING_S)
    failures.record_failure(ONE, MISMATCH, LASTING_S)
    assert failures.fatal is MISMATCH.error


def test_a_mismatch_is_a_restart_once_a_broker_has_worked() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for at in range(100):
        failures.record_failure(ONE, MISMATCH, at * LASTING_S)
    assert failures.fatal is None


def test_what_may_pass_is_waited_for() -> None:
    failures = ConnectionFailures([ONE])
    for at in range(100):
        failures.record_failure(ONE, PASSING, at * LASTING_S)
    assert failures.fatal is None
