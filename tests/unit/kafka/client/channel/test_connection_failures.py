"""When connection failures become fatal, with explicit times."""

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.kafka.client.channel.connection_failures import (
    LASTING_S,
    REPEATED,
    ConnectionFailures,
    Diagnosis,
    FailureKind,
)

ONE, TWO = "one:1", "two:2"
REFUSED = Diagnosis("no", FailureKind.REJECTED, AuthenticationError("no"))
MISMATCH = Diagnosis("what?", FailureKind.MISMATCH, AuthenticationError("what?"))
PASSING = Diagnosis("later")


def test_only_server_rejects() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error
    assert failures.reasons == {ONE: "no"}


def test_each_bootstrap_server_is_tried() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is None
    failures.record_failure(TWO, REFUSED, 1.1)
    assert failures.fatal is REFUSED.error


def test_one_rejecting_server_is_ignored_if_another_accepts() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.record_failure(ONE, REFUSED, 1.0)
    failures.record_success(TWO)
    failures.record_failure(ONE, REFUSED, 2.0)
    assert failures.fatal is None
    assert failures.reasons == {ONE: "no"}


def test_password_is_not_retried_often() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.record_failure(TWO, PASSING, 1.0)
    for _ in range(REPEATED):
        assert failures.fatal is None
        failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error


def test_slow_server_has_time() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(2 * REPEATED):
        failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is None
    failures.record_failure(ONE, REFUSED, 1.0 + LASTING_S)
    assert failures.fatal is REFUSED.error


def test_unreachable_server_does_not_hide_a_rejecting_one() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(REPEATED):
        failures.record_failure(TWO, PASSING, 1.0)
        failures.record_failure(ONE, REFUSED, 1.0)
    assert failures.fatal is REFUSED.error


def test_after_success_a_rejection_must_repeat_and_last() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for _ in range(10 * REPEATED):
        failures.record_failure(ONE, REFUSED, 10.0)
    assert failures.fatal is None
    failures.record_failure(ONE, REFUSED, 10.0 + LASTING_S)
    assert failures.fatal is REFUSED.error


def test_accepted_login_resets_later_rejections() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for at in range(100):
        failures.record_failure(ONE, REFUSED, at * LASTING_S)
        failures.record_success(ONE)
    assert failures.fatal is None
    failures.record_failure(ONE, REFUSED, 200 * LASTING_S)
    failures.record_failure(ONE, REFUSED, 201 * LASTING_S)
    assert failures.fatal is None


def test_rejecting_broker_is_fatal_even_if_others_work() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for at in range(REPEATED):
        failures.record_failure(TWO, REFUSED, at * LASTING_S)
        failures.record_success(ONE)
    assert failures.fatal is REFUSED.error


def test_protocol_mismatch_must_repeat_and_last_on_all_servers() -> None:
    failures = ConnectionFailures([ONE, TWO])
    for _ in range(REPEATED):
        failures.record_failure(ONE, MISMATCH, 0.0)
    failures.record_failure(ONE, MISMATCH, LASTING_S)
    assert failures.fatal is None  # the other server may work
    for _ in range(REPEATED):
        failures.record_failure(TWO, PASSING, LASTING_S)
    failures.record_failure(ONE, MISMATCH, LASTING_S)
    assert failures.fatal is MISMATCH.error


def test_mismatch_after_success_is_a_restart() -> None:
    failures = ConnectionFailures([ONE])
    failures.record_success(ONE)
    for at in range(100):
        failures.record_failure(ONE, MISMATCH, at * LASTING_S)
    assert failures.fatal is None


def test_transient_failures_are_retried() -> None:
    failures = ConnectionFailures([ONE])
    for at in range(100):
        failures.record_failure(ONE, PASSING, at * LASTING_S)
    assert failures.fatal is None
