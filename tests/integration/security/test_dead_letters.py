"""Dead letters use the listener and credentials of the write."""

import pytest

from spark_kafka_sink.common.errors import KafkaProdError
from tests.integration.support.tolerant_writes import TOLERATE, batch, write
from tests.support.security.client_configs import TRUST, ClientConfig, password_options
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import DENIED, User
from tools.support.readers import by_confluent

CLIENT = ClientConfig(
    "carol", Listener.SASL_SSL, {**TRUST, **password_options("SCRAM-SHA-512", User.CAROL)}
)


def write_bad_row(kafka: SecuredKafka, topic: str, letters: str) -> None:
    """Write two valid rows and one with a partition that does not exist."""
    rows = batch([("1", topic, None, None), ("poison", topic, 99, None), ("2", topic, 0, None)])
    dead = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    write(kafka.servers(CLIENT.listener), rows, {**CLIENT.spark_options(kafka), **dead})


def test_dead_letters_are_written_to_a_secured_topic(
    kafka: SecuredKafka, unique_topic: str
) -> None:
    letters = f"{unique_topic}-dead"
    for name in (unique_topic, letters):
        kafka.admin.create_topic(name)
    write_bad_row(kafka, unique_topic, letters)
    good = by_confluent(kafka.bootstrap_servers, unique_topic)
    assert sorted(record.value or b"" for record in good) == [b"1", b"2"]
    dead = by_confluent(kafka.bootstrap_servers, letters)
    assert [record.value for record in dead] == [b"poison"]


def test_dead_letter_topic_without_write_permission(kafka: SecuredKafka, unique_topic: str) -> None:
    letters = f"{DENIED}{unique_topic}"
    for name in (unique_topic, letters):
        kafka.admin.create_topic(name)
    with pytest.raises(KafkaProdError) as caught:
        write_bad_row(kafka, unique_topic, letters)
    assert letters in str(caught.value)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(caught.value)
    assert not by_confluent(kafka.bootstrap_servers, letters)
