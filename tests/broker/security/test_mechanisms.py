"""SASL mechanisms with other clients."""

from collections.abc import Iterator
from typing import Never

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import AuthenticationError, ConfigError
from tests.broker.security.clients import WRITERS, Login, NotDeliveredError, Writer

PASSWORD = 'se"c\\ret;='
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        topics={"t": 1}, tls=True, sasl={"alice": PASSWORD}, sasl_mechanisms=MECHANISMS
    ) as broker:
        yield broker


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Writer:
    return WRITERS[request.param]


def login(
    broker: EmbeddedBroker, password: str = PASSWORD, user: str = "alice", mechanism: str = "PLAIN"
) -> Login:
    return Login(mechanism=mechanism, user=user, password=password, ca_file=broker.ca_file)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_login_and_write(secured: EmbeddedBroker, write: Writer, mechanism: str) -> None:
    before = secured.end_offsets("t")[0]
    write(secured, login(secured, mechanism=mechanism), "t", b"x")
    assert secured.end_offsets("t")[0] == before + 1


def test_rejected_token_delivers_nothing(write: Writer) -> None:
    def validate(token: str) -> Never:
        raise AuthenticationError("rejected")

    with EmbeddedBroker(
        topics={"t": 1}, tls=True, sasl_mechanisms=["OAUTHBEARER"], oauthbearer_validator=validate
    ) as broker:
        with pytest.raises(NotDeliveredError):
            write(broker, login(broker, mechanism="OAUTHBEARER"), "t", b"x")
        assert broker.end_offsets("t") == [0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_changed_password_and_removed_user(secured: EmbeddedBroker, mechanism: str) -> None:
    def write(password: str) -> None:
        WRITERS["librdkafka"](secured, login(secured, password, "bob", mechanism), "t", b"x")

    def is_rejected(password: str) -> None:
        with pytest.raises(NotDeliveredError, match="Authentication failed"):
            write(password)

    secured.set_password("bob", "first")
    write("first")
    secured.set_password("bob", "second")
    write("second")
    is_rejected("first")
    secured.remove_user("bob")
    is_rejected("second")


def test_client_options_are_javas(secured: EmbeddedBroker) -> None:
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


def test_client_options_of_unknown_user(secured: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="no user mallory"):
        secured.client_options("mallory")


def test_password_is_not_in_repr(secured: EmbeddedBroker) -> None:
    assert PASSWORD not in repr(secured.config)
    assert "secret-42" not in repr(EmbeddedBroker(sasl={"a": "secret-42"}).config)
