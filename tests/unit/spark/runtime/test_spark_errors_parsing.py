"""Parsing an error from its traceback."""

import traceback
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink import (
    BrokerUnavailableError,
    ColumnError,
    ConfigError,
    DeliveryError,
    KafkaProdError,
    TornTransactionError,
    UnknownTopicError,
)
from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.errors import FIELDS
from spark_kafka_sink.spark.runtime.spark_errors import parse_error

JVM = """org.apache.spark.SparkException: [PYTHON_DATA_SOURCE_ERROR] Failed to write: {}
\tat org.apache.spark.sql.Errors$.error(Errors.scala:12)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: {}
"""


def traceback_of(error: Exception) -> str:
    """Return the text that a Spark worker sends to the driver."""
    lines = "".join(traceback.format_exception(error))
    return f"Traceback (most recent call last):\n{lines}"


def parsed(text: str) -> KafkaProdError:
    error = parse_error(text)
    assert error is not None
    return error


def state(error: KafkaProdError) -> tuple[Any, ...]:
    details = getattr(error, "details", ())
    named = tuple(getattr(error, name) for name in FIELDS)
    return type(error), error.message, named, error.statuses, details


words = st.from_regex(r"[a-z][a-z0-9 =:;,'\[\]()]{0,40}[a-z0-9]", fullmatch=True)
topics = st.from_regex(r"[a-z][a-z0-9._-]{0,20}[a-z]", fullmatch=True)
statuses = st.builds(
    PartitionStatus,
    topic=topics,
    partition=st.integers(-1, 10_000),
    records=st.integers(1, 10**12),
    status=st.sampled_from(DeliveryStatus),
    error=st.none() | st.from_regex(r"[A-Z_]{3,30}", fullmatch=True),
)
fields = st.fixed_dictionaries(
    {"topic": topics},
    optional={
        "partition": st.integers(0, 10_000),
        "broker": st.just("kafka-1:9092"),
        "error": st.just("NOT_LEADER_OR_FOLLOWER"),
        "hint": st.lists(words, min_size=1, max_size=3).map(". ".join),
    },
)


@settings(max_examples=50)
@given(words, fields, st.lists(statuses, max_size=10))
def test_error_round_trip(
    message: str, given_fields: dict[str, Any], statuses: list[PartitionStatus]
) -> None:
    ordered = sorted(statuses, key=lambda status: (status.topic, status.partition, status.status))
    error = DeliveryError(message, statuses=tuple(ordered), **given_fields)
    again = parsed(JVM.format(*(traceback_of(error),) * 2))
    assert str(again) == str(error)
    assert state(again) == state(error)


def test_hint_follows_the_first_sentence_without_a_location() -> None:
    error = ConfigError("unknown option foo", hint="Did you mean topic? See the page.")
    again = parsed(traceback_of(error))
    assert state(again) == state(error)


def test_last_error_of_a_chain_counts() -> None:
    error = UnknownTopicError("the topic could not be used", topic="events")
    error.__cause__ = BrokerUnavailableError("no broker answered")
    text = traceback_of(error)
    assert "BrokerUnavailableError" in text
    assert isinstance(parsed(JVM.format(text, "x")), UnknownTopicError)


def test_lines_of_a_torn_batch_are_kept() -> None:
    error = TornTransactionError("batch 3 is torn", details=("a: 3 rows", "b: 4 rows"), hint="go")
    assert state(parsed(traceback_of(error))) == state(error)


@pytest.mark.parametrize(
    "tail",
    [
        " SQLSTATE: 38000",
        " SQLSTATE: 38000 SQLSTATE: XXKST\n=== Streaming Query ===\nIdentifier: [id = 1]\n",
        "=== Streaming Query ===\nIdentifier: [id = 1]\nCurrent Committed Offsets: {}\n\nPlan:",
    ],
)
@pytest.mark.parametrize("hint", [None, "add .mode('append')."])
def test_text_that_spark_appends_is_not_part_of_the_error(tail: str, hint: str | None) -> None:
    error = ConfigError("option kafka.acks is '7'", hint=hint)
    assert state(parsed(f"{traceback_of(error)}{tail}")) == state(error)


def test_unknown_class_is_a_base_error() -> None:
    again = parsed("spark_kafka_sink.common.errors.GoneError: it went\n")
    assert type(again) is KafkaProdError
    assert again.message == "it went"


@pytest.mark.parametrize("text", ["", "ValueError: x", "the spark_kafka_sink.ColumnError: x"])
def test_text_without_an_error_of_the_package(text: str) -> None:
    assert parse_error(text) is None


def test_errors_of_two_tasks_are_distinguished() -> None:
    first, second = ColumnError("a null topic"), ConfigError("an option")
    text = JVM.format(traceback_of(first), traceback_of(second))
    assert isinstance(parsed(text), ColumnError)
