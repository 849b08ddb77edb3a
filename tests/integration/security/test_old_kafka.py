"""A secured Kafka 2.8.2: the doors that it has, and users without rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, AuthorizationError
from tests.integration.security.load import numbers
from tests.integration.support.producing import numbered, produce
from tests.support.security.doors import DOORS, TRUST, Door, password_options
from tests.support.security.entering import write_with_confluent
from tests.support.security.listeners import Listener
from tests.support.security.old import LISTENERS, SecuredOldKafka
from tests.support.security.users import User

if TYPE_CHECKING:
    from collections.abc import Iterator

_LATER = ("OAUTHBEARER", "GSSAPI")
"""Mechanisms that this broker is not given."""
HERE = [
    door
    for door in DOORS
    if door.listener in LISTENERS and door.options.get("sasl.mechanism") not in _LATER
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredOldKafka]:
    with SecuredOldKafka() as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: SecuredOldKafka, unique_topic: str) -> str:
    return kafka.admin.create_topic(unique_topic, 3)


@pytest.mark.parametrize("door", HERE, ids=lambda door: door.name)
def test_our_producer_enters(kafka: SecuredOldKafka, topic: str, door: Door) -> None:
    chunk = numbered(topic, 0, 300, 3)
    produce(kafka.servers(door.listener), chunk, **door.java_options(kafka))
    assert numbers(kafka, topic) == list(range(300))


@pytest.mark.parametrize(
    "door", [door for door in HERE if door.librdkafka is not None], ids=lambda door: door.name
)
def test_a_foreign_client_enters(kafka: SecuredOldKafka, topic: str, door: Door) -> None:
    values = [b"%d" % number for number in range(10)]
    write_with_confluent(door.confluent_options(kafka), topic, values)
    assert numbers(kafka, topic) == list(range(10))


def _door(user: User, secret: str | None = None) -> Door:
    options = {**TRUST, **password_options("SCRAM-SHA-256", user, secret)}
    return Door(name=user, listener=Listener.SASL_SSL, options=options)


def test_a_wrong_password(kafka: SecuredOldKafka, topic: str) -> None:
    door = _door(User.ALICE, "not-the-password")
    with pytest.raises(AuthenticationError, match="SCRAM-SHA-256"):
        produce(kafka.servers(door.listener), numbered(topic, 0, 1, 1), **door.java_options(kafka))


def test_a_user_without_rights(kafka: SecuredOldKafka, topic: str) -> None:
    door = _door(User.MALLORY)
    with pytest.raises(AuthorizationError, match="CLUSTER_AUTHORIZATION_FAILED"):
        produce(kafka.servers(door.listener), numbered(topic, 0, 1, 1), **door.java_options(kafka))
    assert not numbers(kafka, topic)
