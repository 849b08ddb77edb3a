"""Whatever is wrong, Spark's error says what, and soon; the secrets are not in it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.spark.support.sink import Sink
from tests.support.security.doors import TRUST, Door, password_options
from tests.support.security.listeners import Listener
from tests.support.security.refusals import (
    CERTIFICATES,
    LOGINS,
    MOST_COMMON_MISMATCHES,
    STORES,
    Refusal,
)
from tests.support.security.users import DENIED, User, password
from tools.support.readers import count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.security.secured import SecuredKafka

SOON_S = 40


def refused(
    spark: SparkSession, kafka: SecuredKafka, door: Door, topic: str, **options: str
) -> str:
    """The error of a write that must not succeed."""
    sink = Sink(spark, kafka.servers(door.listener))
    rows = sink.frame("value string", ("a",))
    started = time.monotonic()
    error, _ = sink.jobs_of(
        lambda: sink.write(rows, **{**door.spark_options(kafka), "topic": topic, **options})
    )
    assert error is not None
    assert time.monotonic() - started < SOON_S
    assert count(kafka.bootstrap_servers, topic) == 0
    return str(error)


TRIED = (*CERTIFICATES[::3], *STORES[::2], *LOGINS[::3], *MOST_COMMON_MISMATCHES[::2])
"""Some of each kind: all are tried without Spark, in tests/integration/security."""


@pytest.mark.parametrize("refusal", TRIED, ids=lambda refusal: refusal.name)
def test_the_error_says_what_is_wrong(
    spark: SparkSession, kafka: SecuredKafka, topic: str, refusal: Refusal
) -> None:
    text = refused(spark, kafka, refusal.door, topic)
    missing = [words for words in refusal.says if words not in text]
    assert not missing, text
    assert refusal.error.__name__ in text or refusal.error.__name__ == "KafkaProdError"
    for secret in ("not-the-password", password(User.ALICE), kafka.places["store_password"]):
        assert secret not in text


@pytest.mark.parametrize(
    ("user", "prefix", "says"),
    [
        (User.MALLORY, "", "IdempotentWrite"),
        (User.BOB, "", "IdempotentWrite"),
        (User.CAROL, DENIED, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_a_task_of_a_user_who_may_not(
    spark: SparkSession, kafka: SecuredKafka, unique_topic: str, user: User, prefix: str, says: str
) -> None:
    """The error of the task, as nothing is checked before."""
    topic = kafka.admin.create_topic(f"{prefix}{unique_topic}")
    options = {**TRUST, **password_options("SCRAM-SHA-512", user)}
    door = Door(name=user, listener=Listener.SASL_SSL, options=options)
    assert says in refused(spark, kafka, door, topic, preflight="off")
