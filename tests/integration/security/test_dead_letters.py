"""The dead letter topic is reached by the same door as the rows' own, and with the same rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import KafkaProdError
from tests.integration.support.tolerating import TOLERATE, batch, write
from tests.support.security.doors import TRUST, Door, password_options
from tests.support.security.listeners import Listener
from tests.support.security.users import DENIED, User
from tools.support.readers import by_confluent

if TYPE_CHECKING:
    from tests.support.security.secured import SecuredKafka

DOOR = Door(
    name="carol",
    listener=Listener.SASL_SSL,
    options={**TRUST, **password_options("SCRAM-SHA-512", User.CAROL)},
)


def _write(kafka: SecuredKafka, topic: str, letters: str) -> None:
    """Two good rows and one that names a partition that is not there."""
    given = batch([("1", topic, None, None), ("poison", topic, 99, None), ("2", topic, 0, None)])
    dead = {**TOLERATE, "errors.deadletterqueue.topic.name": letters}
    write(kafka.servers(DOOR.listener), given, {**DOOR.spark_options(kafka), **dead})


def test_dead_letters_go_to_a_secured_topic(kafka: SecuredKafka, unique_topic: str) -> None:
    letters = f"{unique_topic}-dead"
    for name in (unique_topic, letters):
        kafka.admin.create_topic(name)
    _write(kafka, unique_topic, letters)
    good = by_confluent(kafka.bootstrap_servers, unique_topic)
    assert sorted(record.value or b"" for record in good) == [b"1", b"2"]
    dead = by_confluent(kafka.bootstrap_servers, letters)
    assert [record.value for record in dead] == [b"poison"]


def test_a_dead_letter_topic_that_is_denied(kafka: SecuredKafka, unique_topic: str) -> None:
    letters = f"{DENIED}{unique_topic}"
    for name in (unique_topic, letters):
        kafka.admin.create_topic(name)
    with pytest.raises(KafkaProdError, match=letters) as caught:
        _write(kafka, unique_topic, letters)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(caught.value)
    assert not by_confluent(kafka.bootstrap_servers, letters)
