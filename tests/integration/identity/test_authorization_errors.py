"""Denied permissions: errors contain the permission and the user, and are raised in seconds."""

import time
from collections.abc import Iterator

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import AuthorizationError
from tests.integration.support.tolerant_writes import TOLERATE, batch, write

ROWS = batch([("a", "t", None, None)])
SECONDS = 30.0


@pytest.fixture
def secured() -> Iterator[EmbeddedBroker]:
    users = {"alice": "of-alice", "reader": "of-reader"}
    topics = {"t": 1, "dead": 1}
    with EmbeddedBroker(sasl=users, topics=topics, auto_create_topics=True) as kafka:
        yield kafka


def write_error(kafka: EmbeddedBroker, batch_or_rows: object = ROWS, **options: str) -> str:
    """Return the error of alice's write; check the time, and that it contains no password."""
    started = time.monotonic()
    named = {name.replace("__", "."): value for name, value in options.items()}
    with pytest.raises(AuthorizationError) as caught:
        write(kafka.bootstrap_servers, batch_or_rows, kafka.client_options("alice") | named)  # type: ignore[arg-type]
    assert time.monotonic() - started < SECONDS
    assert "of-alice" not in str(caught.value)
    return str(caught.value)


def command(kafka: EmbeddedBroker, operation: str, resource: str) -> str:
    return (
        f"kafka-acls --bootstrap-server {kafka.bootstrap_servers} --command-config "
        "admin.properties --add --allow-principal User:alice "
        f"--operation {operation} {resource}"
    )


def test_write_on_a_topic(secured: EmbeddedBroker) -> None:
    secured.deny("alice", "Write", topic="t")
    message = write_error(secured)
    assert "Write on topic t is denied to User:alice" in message
    assert command(secured, "Write", "--topic t") in message


@pytest.mark.parametrize("creates", ["true", "false"])
def test_describe_on_a_topic(secured: EmbeddedBroker, creates: str) -> None:
    secured.deny("alice", "Describe", topic="t")
    message = write_error(secured, kafka__allow__auto__create__topics=creates)
    assert "Describe on topic t is denied to User:alice" in message
    assert command(secured, "Write", "--topic t") in message


def test_create_of_a_topic(secured: EmbeddedBroker) -> None:
    secured.deny("alice", "Create", topic="new")
    message = write_error(secured, batch([("a", "new", None, None)]))
    assert "topic new does not exist, and User:alice is not authorized to create it" in message
    assert command(secured, "Create", "--topic new") in message


def test_missing_idempotent_write_is_named(secured: EmbeddedBroker) -> None:
    secured.deny("alice", "IdempotentWrite")
    message = write_error(secured)
    assert "IdempotentWrite on the cluster" in message
    assert command(secured, "IdempotentWrite", "--cluster") in message
    options = secured.client_options("alice") | {"kafka.enable.idempotence": "false"}
    assert write(secured.bootstrap_servers, ROWS, options).persisted == 1


def test_write_on_the_dead_letter_topic(secured: EmbeddedBroker) -> None:
    secured.deny("alice", "Write", topic="*")
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": "dead"}
    message = write_error(secured, **options)
    assert "Grant Write on the dead letter topic dead to User:alice" in message


def test_rows_of_a_denied_topic_become_dead_letters(secured: EmbeddedBroker) -> None:
    secured.deny("alice", "Write", topic="t")
    options = {**TOLERATE, "errors.deadletterqueue.topic.name": "dead"}
    report = write(secured.bootstrap_servers, ROWS, secured.client_options("alice") | options)
    (count,) = report.poison
    assert (count.reason, count.dead_lettered) == ("TOPIC_UNAUTHORIZED", 1)
    assert command(secured, "Write", "--topic t") in count.examples[0]
    assert secured.end_offsets("dead") == [1]
    assert secured.end_offsets("t") == [0]


def test_restored_permission_applies_to_the_next_task(secured: EmbeddedBroker) -> None:
    denial = secured.deny("alice", "Describe", topic="t")
    write_error(secured)
    secured.take_back(denial)
    options = secured.client_options("alice")
    assert write(secured.bootstrap_servers, ROWS, options).persisted == 1
