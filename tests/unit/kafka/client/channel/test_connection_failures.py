"""When failures of connections become fatal, with explicit times."""

from itertools import chain

import pytest

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.kafka.client.channel.connection_failures import (
    LASTING_S,
    REPEATED,
    ConnectionFailures,
)
from spark_kafka_sink.kafka.client.channel.diagnosis import Diagnosis, FailureKind

ONE, TWO = "one:1", "two:2"
REFUSED = Diagnosis("no", FailureKind.REJECTED, AuthenticationError("no"))
MISMATCH = Diagnosis("what?", FailureKind.MISMATCH, AuthenticationError("what?"))
PASSING = Diagnosis("later")
REJECTION = (ONE, REFUSED, 1.0)
SUCCESS = (ONE, None, 0.0)
RULES: dict[str, tuple[list[str], list[tuple[str, Diagnosis | None, float]], Diagnosis | None]] = {
    "the only server rejects": ([ONE], [REJECTION], REFUSED),
    "each bootstrap server is tried": ([ONE, TWO], [REJECTION, (TWO, REFUSED, 1.1)], REFUSED),
    "one server rejects and another accepts": (
        [ONE, TWO],
        [REJECTION, (TWO, None, 1.0), (ONE, REFUSED, 2.0)],
        None,
    ),
    "a password is not retried often": (
        [ONE, TWO],
        [(TWO, PASSING, 1.0), *[REJECTION] * REPEATED],
        REFUSED,
    ),
    "a slow server has time": (
        [ONE, TWO],
        [*[REJECTION] * 2 * REPEATED, (ONE, REFUSED, 1.0 + LASTING_S)],
        REFUSED,
    ),
    "an unreachable server does not hide a rejecting one": (
        [ONE, TWO],
        [(TWO, PASSING, 1.0), REJECTION] * REPEATED,
        REFUSED,
    ),
    "after a success, a rejection must repeat and last": (
        [ONE],
        [SUCCESS, *[REJECTION] * 10 * REPEATED, (ONE, REFUSED, 1.0 + LASTING_S)],
        REFUSED,
    ),
    "an accepted login resets rejections": (
        [ONE],
        [
            *chain.from_iterable((SUCCESS, (ONE, REFUSED, at * LASTING_S)) for at in range(100)),
            *(SUCCESS, (ONE, REFUSED, 200 * LASTING_S), (ONE, REFUSED, 201 * LASTING_S)),
        ],
        None,
    ),
    "a rejecting broker is fatal even if others work": (
        [ONE],
        [*chain.from_iterable((SUCCESS, (TWO, REFUSED, at * LASTING_S)) for at in range(REPEATED))],
        REFUSED,
    ),
    "a mismatch must repeat and last on all servers": (
        [ONE, TWO],
        [
            *[(ONE, MISMATCH, 0.0)] * REPEATED,
            (ONE, MISMATCH, LASTING_S),
            *[(TWO, PASSING, LASTING_S)] * REPEATED,
            (ONE, MISMATCH, LASTING_S),
        ],
        MISMATCH,
    ),
    "a mismatch after a success is a restart": (
        [ONE],
        [SUCCESS, *[(ONE, MISMATCH, at * LASTING_S) for at in range(100)]],
        None,
    ),
    "transient failures are retried": (
        [ONE],
        [(ONE, PASSING, at * LASTING_S) for at in range(100)],
        None,
    ),
}
"""Servers, events (None is a success) and the diagnosis that the last event makes fatal."""


@pytest.mark.parametrize("rule", RULES)
def test_failures_become_fatal(rule: str) -> None:
    servers, events, fatal = RULES[rule]
    failures = ConnectionFailures(servers)
    for server, diagnosis, at_s in events:
        assert failures.fatal is None
        if diagnosis is None:
            failures.record_success(server)
        else:
            failures.record_failure(server, diagnosis, at_s)
    assert failures.fatal is (fatal and fatal.error)


def test_reasons_are_those_of_the_latest_failures() -> None:
    failures = ConnectionFailures([ONE, TWO])
    failures.record_failure(ONE, REFUSED, 1.0)
    failures.record_success(TWO)
    assert failures.reasons == {ONE: "no"}
