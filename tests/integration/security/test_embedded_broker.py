"""Our producer and the embedded broker: every mechanism, with and without TLS, and refusals."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError, TlsError
from tests.integration.support.producing import numbered, produce

if TYPE_CHECKING:
    from collections.abc import Iterator

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
ROWS = 3_000
SOON_S = 30
USERS = {"alice": "open sesame"}


def options_of(broker: EmbeddedBroker, **login: Any) -> tuple[str, dict[str, str]]:
    """Addresses, and the other options without the prefix."""
    options = broker.client_options(prefix="", **login)
    return options.pop("bootstrap.servers"), options


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("tls", [False, True], ids=["plaintext", "tls"])
def test_every_mechanism(mechanism: str, tls: bool) -> None:
    with EmbeddedBroker(topics={"t": 3}, tls=tls, sasl=USERS, nodes=2) as broker:
        servers, options = options_of(broker, mechanism=mechanism)
        report = produce(servers, numbered("t", 0, ROWS, 3), **options)
    assert (report.persisted, report.retries) == (ROWS, 0)


def test_a_client_certificate() -> None:
    with EmbeddedBroker(topics={"t": 3}, tls=True, client_certificates="required") as broker:
        for own in (broker.client_certificate("alice"), None):
            servers, options = options_of(broker, certificate=own)
            assert produce(servers, numbered("t", 0, ROWS, 3), **options).persisted == ROWS
        options = {name: value for name, value in options.items() if "keystore" not in name}
        error, took = refusal(servers, options)
    assert isinstance(error, TlsError)
    assert "kafka.ssl.keystore" in str(error)
    assert took < SOON_S


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}, tls=True, sasl=USERS) as broker:
        yield broker


@pytest.fixture(scope="module")
def encrypted() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}, tls=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def guarded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}, sasl=USERS) as broker:
        yield broker


@pytest.fixture(scope="module")
def open_to_all() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 3}) as broker:
        yield broker


def refusal(servers: str, options: dict[str, str]) -> tuple[KafkaProdError, float]:
    """The error of a write, and the seconds that it took."""
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        produce(servers, numbered("t", 0, 10, 3), **options)
    return caught.value, time.monotonic() - started


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password(secured: EmbeddedBroker, mechanism: str) -> None:
    servers, options = options_of(secured, mechanism=mechanism)
    options["sasl.jaas.config"] = options["sasl.jaas.config"].replace("open sesame", "let me in")
    error, took = refusal(servers, options)
    assert isinstance(error, AuthenticationError)
    assert f"SASL mechanism {mechanism}: Authentication failed" in str(error)
    assert f"broker={servers}" in str(error)
    assert "let me in" not in str(error)
    assert took < SOON_S


LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "open sesame"}


@pytest.mark.parametrize(
    ("listener", "protocol", "set_to"),
    [
        ("encrypted", "PLAINTEXT", "SSL"),
        ("secured", "PLAINTEXT", "SASL_SSL"),
        ("secured", "SASL_PLAINTEXT", "SASL_SSL"),
        ("guarded", "PLAINTEXT", "SASL_PLAINTEXT"),
        ("secured", "SSL", "SASL_SSL"),
        ("open_to_all", "SSL", "PLAINTEXT"),
        ("guarded", "SASL_SSL", "SASL_PLAINTEXT"),
        ("open_to_all", "SASL_PLAINTEXT", "PLAINTEXT"),
        ("encrypted", "SASL_SSL", "SSL"),
        ("open_to_all", "SASL_SSL", "PLAINTEXT"),
    ],
)
def test_a_client_at_the_wrong_port(
    request: pytest.FixtureRequest, listener: str, protocol: str, set_to: str
) -> None:
    """The error names the option, and nearly always what to set it to."""
    broker: EmbeddedBroker = request.getfixturevalue(listener)
    options = {"security.protocol": protocol}
    if protocol.startswith("SASL"):
        options |= LOGIN
    if protocol.endswith("SSL") and listener in {"secured", "encrypted"}:
        _, trusting = options_of(broker)
        options |= {name: value for name, value in trusting.items() if "truststore" in name}
    error, took = refusal(broker.bootstrap_servers, options)
    assert "kafka.security.protocol" in str(error)
    assert set_to in str(error)
    assert took < SOON_S
