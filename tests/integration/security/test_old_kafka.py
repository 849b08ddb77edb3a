"""A secured Kafka 2.8.2: its client configurations, and authorization failures."""

from collections.abc import Iterator

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, AuthorizationError
from tests.support.producer_writes import numbered, produce
from tests.support.security.client_configs import (
    CLIENT_CONFIGS,
    TRUST,
    ClientConfig,
    password_options,
)
from tests.support.security.listeners import Listener
from tests.support.security.secured_old_kafka import LISTENERS, SecuredOldKafka
from tests.support.security.users import User
from tools.support.readers import numbers_in

NOT_CONFIGURED = ("OAUTHBEARER", "GSSAPI")
"""Mechanisms that are not configured on this broker."""
SUPPORTED = [
    client
    for client in CLIENT_CONFIGS
    if client.listener in LISTENERS and client.options.get("sasl.mechanism") not in NOT_CONFIGURED
]


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredOldKafka]:
    with SecuredOldKafka() as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: SecuredOldKafka, unique_topic: str) -> str:
    return kafka.admin.create_topic(unique_topic, 3)


@pytest.mark.parametrize("client", SUPPORTED, ids=lambda client: client.name)
def test_producer_writes_with_each_mechanism(
    kafka: SecuredOldKafka, topic: str, client: ClientConfig
) -> None:
    chunk = numbered(topic, 0, 300, 3)
    produce(kafka.servers(client.listener), chunk, **client.java_options(kafka))
    assert numbers_in(kafka.bootstrap_servers, topic) == list(range(300))


def client_of(user: User, secret: str | None = None) -> ClientConfig:
    options = {**TRUST, **password_options("SCRAM-SHA-256", user, secret)}
    return ClientConfig(user, Listener.SASL_SSL, options)


def test_wrong_password_fails_the_write(kafka: SecuredOldKafka, topic: str) -> None:
    client = client_of(User.ALICE, "not-the-password")
    with pytest.raises(AuthenticationError):
        produce(
            kafka.servers(client.listener), numbered(topic, 0, 1, 1), **client.java_options(kafka)
        )


def test_user_without_acls(kafka: SecuredOldKafka, topic: str) -> None:
    client = client_of(User.MALLORY)
    with pytest.raises(AuthorizationError) as caught:
        produce(
            kafka.servers(client.listener), numbered(topic, 0, 1, 1), **client.java_options(kafka)
        )
    assert caught.value.kafka_error == "CLUSTER_AUTHORIZATION_FAILED"
    assert not numbers_in(kafka.bootstrap_servers, topic)
