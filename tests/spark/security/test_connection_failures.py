"""Spark writes with invalid client configurations fail quickly; errors contain no secrets."""

import time

import pytest
from pyspark.sql import SparkSession

from tests.spark.support.sink import Sink
from tests.support.security.client_configs import TRUST, ClientConfig, password_options
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import DENIED, User
from tools.support.readers import count

FAILURE_LIMIT_S = 40


def failed_write(
    spark: SparkSession, kafka: SecuredKafka, client: ClientConfig, topic: str, **options: str
) -> str:
    """Return the error of a write that must fail."""
    sink = Sink(spark, kafka.servers(client.listener))
    rows = sink.frame("value string", ("a",))
    started = time.monotonic()
    error, _ = sink.jobs_of(
        lambda: sink.write(rows, **{**client.spark_options(kafka), "topic": topic, **options})
    )
    assert error is not None
    assert time.monotonic() - started < FAILURE_LIMIT_S
    assert count(kafka.bootstrap_servers, topic) == 0
    return str(error)


@pytest.mark.parametrize(
    ("user", "prefix", "expected"),
    [
        (User.MALLORY, "", "IdempotentWrite"),
        (User.BOB, "", "IdempotentWrite"),
        (User.CAROL, DENIED, "TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_user_without_permission(
    spark: SparkSession,
    kafka: SecuredKafka,
    unique_topic: str,
    user: User,
    prefix: str,
    expected: str,
) -> None:
    """Preflight is off, so the error comes from the task."""
    topic = kafka.admin.create_topic(f"{prefix}{unique_topic}")
    options = {**TRUST, **password_options("SCRAM-SHA-512", user)}
    client = ClientConfig(user, Listener.SASL_SSL, options)
    assert expected in failed_write(spark, kafka, client, topic, preflight="off")
