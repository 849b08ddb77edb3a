"""Downgrade attacks by a man in the middle fail and reveal no secret.

Without TLS the attacker can change all messages; with TLS, the offered versions.
"""

import time
from dataclasses import replace
from typing import Any

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError, TlsError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.integration.security.man_in_the_middle import (
    Captured,
    intercept,
    intercept_bytes,
    remove_apis,
)
from tests.support.producer_writes import numbered, produce
from tests.support.security.client_configs import ALICE_LOGINS, TRUST, ClientConfig
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User, password
from tests.support.tls_servers import openssl_server
from tools.support.readers import count

FAILURE_LIMIT_S = 30
UNSUPPORTED_MECHANISM = ErrorCode.unsupported_sasl_mechanism
NO_PASSWORD_SENT = tuple(name for name in ALICE_LOGINS if name != "PLAIN")
"""Mechanisms that do not send the password."""
HANDSHAKES = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
ALERT, HANDSHAKE, CHANGE_CIPHER_SPEC = 21, 22, 20
TLS_1_1, TLS_1_2, TLS_1_3 = b"\x03\x02", b"\x03\x03", b"\x03\x04"
SECURE = ClientConfig("TLS", Listener.SSL, TRUST)


def failed_write(
    kafka: SecuredKafka, address: str, topic: str, client: ClientConfig
) -> KafkaProdError:
    """Return the error of a write through `address`; check that it fails quickly."""
    options = client.java_options(kafka) | {"bootstrap.servers": address, "max.block.ms": "5000"}
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        produce(address, numbered(topic, 0, 10, 1), **options)
    assert time.monotonic() - started < FAILURE_LIMIT_S
    assert count(kafka.bootstrap_servers, topic) == 0
    return caught.value


def sasl_client(mechanism: str) -> ClientConfig:
    return ClientConfig(mechanism, Listener.SASL_PLAINTEXT, ALICE_LOGINS[mechanism])


def check_nothing_leaked(captured: Captured, mechanism: str) -> None:
    """Check for no password, no other mechanism and no request before the login."""
    assert password(User.ALICE).encode() not in bytes(captured.data)
    assert captured.apis <= HANDSHAKES
    mechanisms = {
        request.mechanism for api, request in captured.requests if api is ApiKey.SASL_HANDSHAKE
    }
    assert mechanisms <= {mechanism}


@pytest.mark.parametrize("mechanism", NO_PASSWORD_SENT)
def test_broker_offers_only_plain(kafka: SecuredKafka, topic: str, mechanism: str) -> None:
    def offer_plain(api: ApiKey, response: Any) -> Any:
        if api is not ApiKey.SASL_HANDSHAKE:
            return response
        return replace(response, error_code=UNSUPPORTED_MECHANISM, mechanisms=("PLAIN",))

    with intercept(kafka.servers(Listener.SASL_PLAINTEXT), offer_plain) as (address, captured):
        error = failed_write(kafka, address, topic, sasl_client(mechanism))
    assert isinstance(error, AuthenticationError)
    assert f"SASL mechanism {mechanism}: it offers PLAIN" in str(error)
    check_nothing_leaked(captured, mechanism)
    assert ApiKey.SASL_AUTHENTICATE not in captured.apis


@pytest.mark.parametrize("mechanism", NO_PASSWORD_SENT)
def test_mechanism_in_handshake_is_replaced_by_plain(
    kafka: SecuredKafka, topic: str, mechanism: str
) -> None:
    """The broker interprets the client's first message as a user name and password."""

    def request_plain(api: ApiKey, frame: bytes) -> bytes:
        name = mechanism.encode()
        if api is not ApiKey.SASL_HANDSHAKE:
            return frame
        return frame.replace(len(name).to_bytes(2, "big") + name, b"\x00\x05PLAIN")

    target = kafka.servers(Listener.SASL_PLAINTEXT)
    with intercept(target, requests=request_plain) as (address, captured):
        error = failed_write(kafka, address, topic, sasl_client(mechanism))
    assert isinstance(error, AuthenticationError)
    assert mechanism in str(error)
    assert ApiKey.SASL_AUTHENTICATE in captured.apis
    check_nothing_leaked(captured, mechanism)


@pytest.mark.parametrize("mechanism", ALICE_LOGINS)
@pytest.mark.parametrize(
    "hidden",
    [(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), (ApiKey.SASL_AUTHENTICATE,)],
    ids=["no SASL", "no SaslAuthenticate"],
)
def test_sasl_apis_are_hidden(
    kafka: SecuredKafka, topic: str, mechanism: str, hidden: tuple[ApiKey, ...]
) -> None:
    """The client requires a login, and logs in only with SaslAuthenticate (KIP-152)."""

    def hide(api: ApiKey, response: Any) -> Any:
        return remove_apis(response, *hidden) if api is ApiKey.API_VERSIONS else response

    with intercept(kafka.servers(Listener.SASL_PLAINTEXT), hide) as (address, captured):
        assert isinstance(
            failed_write(kafka, address, topic, sasl_client(mechanism)), AuthenticationError
        )
    check_nothing_leaked(captured, mechanism)
    assert captured.apis == {ApiKey.API_VERSIONS}


# TLS.


def record_types(data: bytes) -> set[int]:
    """Return the content types of TLS records."""
    types, at = set(), 0
    while at < len(data):
        types.add(data[at])
        at += 5 + int.from_bytes(data[at + 3 : at + 5], "big")
    return types


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_tls_is_stripped(kafka: SecuredKafka, topic: str, mechanism: str) -> None:
    """The proxy leads to a listener without TLS."""
    client = ClientConfig(mechanism, Listener.SASL_SSL, {**TRUST, **ALICE_LOGINS[mechanism]})
    with intercept_bytes(kafka.servers(Listener.SASL_PLAINTEXT)) as (address, captured):
        error = failed_write(kafka, address, topic, client)
    assert "security.protocol" in str(error)
    assert record_types(bytes(captured.data)) <= {HANDSHAKE, ALERT}


def test_server_hello_is_changed_to_tls_1_1(kafka: SecuredKafka, topic: str) -> None:
    def choose_1_1(data: bytes) -> bytes:
        hello = data[0] == HANDSHAKE and data[5] == 2  # ServerHello
        return data[:9] + TLS_1_1 + data[11:] if hello else data

    with intercept_bytes(kafka.servers(Listener.TLS12), to_client=choose_1_1) as (
        address,
        captured,
    ):
        error = failed_write(kafka, address, topic, SECURE)
    assert isinstance(error, TlsError)
    assert "version" in str(error)
    assert record_types(bytes(captured.data)) <= {HANDSHAKE, ALERT}


def test_tls_1_3_is_removed_from_client_hello(kafka: SecuredKafka, topic: str) -> None:
    """The broker selects TLS 1.2 and signals its support for 1.3 (RFC 8446, section 4.1.3)."""
    offered = b"\x00\x2b\x00\x05\x04" + TLS_1_3 + TLS_1_2
    assert len(offered) == 9

    def drop_1_3(data: bytes) -> bytes:
        return data.replace(offered, offered[:5] + TLS_1_2 + TLS_1_2)

    with intercept_bytes(kafka.servers(Listener.SSL), to_broker=drop_1_3) as (address, captured):
        error = failed_write(kafka, address, topic, SECURE)
    assert offered in captured.data
    assert isinstance(error, TlsError)
    assert record_types(bytes(captured.data)) <= {HANDSHAKE, ALERT, CHANGE_CIPHER_SPEC}


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_server_with_old_tls_version(kafka: SecuredKafka, topic: str, version: str) -> None:
    """The server's certificate is trusted."""
    options = (version, "-cipher", "ALL:@SECLEVEL=0")
    with (
        openssl_server(kafka.stores.path("good.pem"), *options) as port,
        intercept_bytes(f"127.0.0.1:{port}") as (address, captured),
    ):
        error = failed_write(kafka, address, topic, SECURE)
    assert isinstance(error, TlsError)
    assert "version" in str(error)
    assert record_types(bytes(captured.data)) <= {HANDSHAKE, ALERT}
