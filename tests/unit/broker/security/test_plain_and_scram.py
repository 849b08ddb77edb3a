"""SCRAM between the broker and a client of this package."""

from base64 import b64decode, b64encode

import pytest

from spark_kafka_sink.broker.security.plain_and_scram import Credentials, ScramSaslServer
from spark_kafka_sink.broker.security.sasl_server import SaslServerError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import Mechanism, PasswordLogin
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from spark_kafka_sink.kafka.security.sasl.scram import scram_exchange

MECHANISMS = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


@pytest.fixture(scope="module")
def credentials() -> Credentials:
    users = Credentials()
    users.set_password("al=ice,", "pässword")
    return users


def client(mechanism: Mechanism, password: str = "pässword") -> SaslExchange:
    login = PasswordLogin(
        username=Secret("al=ice,", "sasl.username"), password=Secret(password, "sasl.password")
    )
    return scram_exchange(mechanism, login)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_sides_prove_their_identity(credentials: Credentials, mechanism: Mechanism) -> None:
    exchange, server = client(mechanism), ScramSaslServer(credentials, mechanism.value)
    final = exchange.next_response(server.evaluate(exchange.initial_response()))
    assert final is not None
    assert not server.is_complete
    assert exchange.next_response(server.evaluate(final)) is None
    assert (server.is_complete, server.user) == (True, "al=ice,")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_is_rejected(credentials: Credentials, mechanism: Mechanism) -> None:
    exchange = client(mechanism, "guessed")
    server = ScramSaslServer(credentials, mechanism.value)
    final = exchange.next_response(server.evaluate(exchange.initial_response()))
    assert final is not None
    with pytest.raises(SaslServerError):
        server.evaluate(final)
    assert not server.is_complete


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,n=nobody,r=abc",
        b"p=tls-unique,,n=al=3Dice=2C,r=abc",
        b"y,,n=al=3Dice=2C,r=abc",
        b"n,,n=al=3Dice=2C",
        b"n,,n=al=3Dice=2C,r=",
        b"n,a=bob,n=al=3Dice=2C,r=abc",
        b"n,,n=al=ice,r=abc",
        b"\xff\xfe",
        bytes(1000),
    ],
)
def test_rejected_first_messages(credentials: Credentials, message: bytes) -> None:
    with pytest.raises(SaslServerError):
        ScramSaslServer(credentials, "SCRAM-SHA-256").evaluate(message)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("c=biws", "c=eSws"),
        lambda text: text.replace("r=", "r=x"),
        lambda text: text.rpartition(",p=")[0],
        lambda text: text.rpartition(",p=")[0] + ",p=" + b64encode(bytes(32)).decode(),
        lambda text: text.rpartition(",p=")[0] + ",p=" + b64encode(bytes(1)).decode(),
        lambda text: text.rpartition(",p=")[0] + ",p=====",
        lambda text: text[:0],
    ],
)
def test_rejected_final_messages(credentials: Credentials, change: object) -> None:
    exchange = client(Mechanism.SCRAM_SHA_256)
    server = ScramSaslServer(credentials, "SCRAM-SHA-256")
    final = exchange.next_response(server.evaluate(exchange.initial_response()))
    assert final is not None
    assert callable(change)
    with pytest.raises(SaslServerError):
        server.evaluate(change(final.decode()).encode())
    assert not server.is_complete


def test_example_of_rfc_7677(credentials: Credentials) -> None:
    server = ScramSaslServer(credentials, "SCRAM-SHA-256", nonce="%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    answer = server.evaluate(b"n,,n=al=3Dice=2C,r=rOprNGfwEbeRWgbNEkqO").decode()
    nonce, salt, iterations = answer.split(",")
    assert nonce == "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert len(b64decode(salt.removeprefix("s="))) == 32
    assert iterations == "i=4096"


def test_repr_contains_no_stored_keys(credentials: Credentials) -> None:
    credential = credentials.scram("al=ice,", "SCRAM-SHA-256")
    assert repr(credential) == "ScramCredential(iterations=4096)"
