"""The producer and the embedded broker: every mechanism, with and without TLS, and failures."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError, TlsError
from tests.integration.support.producer_writes import numbered, produce

if TYPE_CHECKING:
    from collections.abc import Iterator

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ROWS = 3_000
FAILURE_LIMIT_S = 30
USERS = {"alice": "open sesame"}


def client_options(broker: EmbeddedBroker, **login: Any) -> tuple[str, dict[str, str]]:
    """Return the bootstrap servers and the other options without prefix."""
    options = broker.client_options(prefix="", **login)
    return options.pop("bootstrap.servers"), options


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
def test_every_mechanism(mechanism: str, tls: bool) -> None:
    with EmbeddedBroker(topics={"t": 3}, tls=tls, sasl=USERS, nodes=2) as broker:
        servers, options = client_options(broker, mechanism=mechanism)
        report = produce(servers, numbered("t", 0, ROWS, 3), **options)
    assert (report.persisted, report.retries) == (ROWS, 0)


def test_a_client_certificate() -> None:
    with EmbeddedBroker(topics={"t": 3}, tls=True, client_certificates="required") as broker:
        for certificate in (broker.client_certificate("alice"), None):
            servers, options = client_options(broker, certificate=certificate)
            assert produce(servers, numbered("t", 0, ROWS, 3), **options).persisted == ROWS
        options = {name: value for name, value in options.items() if "keystore" not in name}
        error, took = failed_write(servers, options)
    assert isinstance(error, TlsError)
    assert "kafka.ssl.keystore" in str(error)
    assert took < FAILURE_LIMIT_S


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}, tls=True, sasl=USERS) as broker:
        yield broker


@pytest.fixture(scope="module")
def tls_only() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}, tls=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def sasl_only() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}, sasl=USERS) as broker:
        yield broker


@pytest.fixture(scope="module")
def plaintext() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}) as broker:
        yield broker


def failed_write(servers: str, options: dict[str, str]) -> tuple[KafkaProdError, float]:
    """Return the error of a write and its duration in seconds."""
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        produce(servers, numbered("t", 0, 10, 3), **options)
    return caught.value, time.monotonic() - started


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password(secured: EmbeddedBroker, mechanism: str) -> None:
    servers, options = client_options(secured, mechanism=mechanism)
    options["sasl.jaas.config"] = options["sasl.jaas.config"].replace("open sesame", "let me in")
    error, took = failed_write(servers, options)
    assert isinstance(error, AuthenticationError)
    assert f"SASL mechanism {mechanism}: Authentication failed" in str(error)
    assert f"broker={servers}" in str(error)
    assert "let me in" not in str(error)
    assert took < FAILURE_LIMIT_S


LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "open sesame"}


@pytest.mark.parametrize(
    ("listener", "protocol", "suggested"),
    [
        ("tls_only", "PLAINTEXT", "SSL"),
        ("secured", "PLAINTEXT", "SASL_SSL"),
        ("secured", "SASL_PLAINTEXT", "SASL_SSL"),
        ("sasl_only", "PLAINTEXT", "SASL_PLAINTEXT"),
        ("secured", "SSL", "SASL_SSL"),
        ("plaintext", "SSL", "PLAINTEXT"),
        ("sasl_only", "SASL_SSL", "SASL_PLAINTEXT"),
        ("plaintext", "SASL_PLAINTEXT", "PLAINTEXT"),
        ("tls_only", "SASL_SSL", "SSL"),
        ("plaintext", "SASL_SSL", "PLAINTEXT"),
    ],
)
def test_wrong_security_protocol(
    request: pytest.FixtureRequest, listener: str, protocol: str, suggested: str
) -> None:
    """The error message contains the option and the suggested value."""
    broker: EmbeddedBroker = request.getfixturevalue(listener)
    options = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        options |= LOGIN
    if protocol.endswith("SSL") and listener in {"secured", "tls_only"}:
        _, trusting = client_options(broker)
        options |= {name: value for name, value in trusting.items() if "truststore" in name}
    error, took = failed_write(broker.bootstrap_servers, options)
    assert "kafka.security.protocol" in str(error)
    assert suggested in str(error)
    assert took < FAILURE_LIMIT_S
