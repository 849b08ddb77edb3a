"""The producer and the embedded broker: every mechanism, with and without TLS, and failures."""

import time
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import KafkaProdError, TlsError
from tests.support.producer_writes import numbered, produce

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
def test_every_mechanism_writes_to_the_embedded_broker(mechanism: str, tls: bool) -> None:
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


def failed_write(servers: str, options: dict[str, str]) -> tuple[KafkaProdError, float]:
    """Return the error of a write and its duration in seconds."""
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        produce(servers, numbered("t", 0, 10, 3), **options)
    return caught.value, time.monotonic() - started
