"""Names and passwords, as foreign clients send them."""

from __future__ import annotations

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError
from tests.broker.security.clients import WRITERS, Login, NotDeliveredError

PASSWORD = 'se"c\\ret;='


@pytest.fixture(scope="module")
def secured():
    with EmbeddedBroker(topics={"t": 1}, tls=True, sasl={"alice": PASSWORD}) as broker:
        yield broker


@pytest.fixture(params=WRITERS)
def write(request):
    return WRITERS[request.param]


def login(broker, password=PASSWORD, user="alice"):
    return Login(mechanism="PLAIN", user=user, password=password, ca_file=broker.ca_file)


def test_a_known_user_writes(secured, write):
    before = secured.end_offsets("t")[0]
    write(secured, login(secured), "t", b"x")
    assert secured.end_offsets("t")[0] == before + 1


def test_a_wrong_password(secured, write):
    with pytest.raises(NotDeliveredError):
        write(secured, login(secured, "guessed"), "t", b"x")


def test_the_reason_is_told(secured):
    with pytest.raises(NotDeliveredError, match="Authentication failed: Invalid username or pass"):
        WRITERS["librdkafka"](secured, login(secured, "guessed"), "t", b"x")


def test_without_tls(write):
    with EmbeddedBroker(topics={"t": 1}, sasl={"alice": PASSWORD}) as broker:
        plain = Login(mechanism="PLAIN", user="alice", password=PASSWORD)
        write(broker, plain, "t", b"x")


def test_a_changed_password_and_a_removed_user(secured, write):
    secured.set_password("bob", "first")
    write(secured, login(secured, "first", "bob"), "t", b"x")
    secured.set_password("bob", "second")
    with pytest.raises(NotDeliveredError):
        write(secured, login(secured, "first", "bob"), "t", b"x")
    write(secured, login(secured, "second", "bob"), "t", b"x")
    secured.remove_user("bob")
    with pytest.raises(NotDeliveredError):
        write(secured, login(secured, "second", "bob"), "t", b"x")


def test_client_options(secured):
    options = secured.client_options("alice", mechanism="PLAIN")
    assert options == {
        "kafka.bootstrap.servers": secured.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": secured.ca_certificate,
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="alice" password="se\\"c\\\\ret;=";',
    }


def test_options_of_nobody(secured):
    with pytest.raises(ConfigError, match="no user mallory"):
        secured.client_options("mallory")


def test_no_password_is_shown(secured):
    assert PASSWORD not in repr(secured.config)
    assert "secret-42" not in repr(EmbeddedBroker(sasl={"a": "secret-42"}).config.security)
