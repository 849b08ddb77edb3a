"""Somebody on the way to a real broker wants less than the options ask for: he gets nothing.

Where there is no TLS he reads and changes all that passes; where there is, the versions at least.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, KafkaProdError, TlsError
from spark_kafka_sink.protocol.error_codes import as_error_code
from spark_kafka_sink.protocol.versions import ApiKey
from tests.integration.security.middle import Overheard, between, wiretap, without
from tests.integration.support.producing import numbered, produce
from tests.support.security.doors import (
    TRUST,
    Door,
    credentials_options,
    keytab_options,
    password_options,
)
from tests.support.security.listeners import Listener
from tests.support.security.users import User, password
from tests.support.tls_servers import openssl_server
from tools.support.readers import count

if TYPE_CHECKING:
    from tests.support.security.secured import SecuredKafka

SOON_S = 30
UNSUPPORTED_MECHANISM = as_error_code(33)
MECHANISMS = {
    **{
        name: password_options(name, User.ALICE)
        for name in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    },
    "OAUTHBEARER": credentials_options(User.ALICE),
    "GSSAPI": keytab_options(User.ALICE),
}
PROVING = tuple(name for name in MECHANISMS if name != "PLAIN")
"""Those that show the password to nobody."""
HANDSHAKES = {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
ALERT, HANDSHAKE, CHANGE_CIPHER_SPEC = 21, 22, 20
TLS_1_1, TLS_1_2, TLS_1_3 = b"\x03\x02", b"\x03\x03", b"\x03\x04"


def refused(kafka: SecuredKafka, address: str, topic: str, door: Door) -> KafkaProdError:
    """The error of a producer that comes by `address`, soon; nothing is in the topic."""
    options = door.java_options(kafka) | {"bootstrap.servers": address, "max.block.ms": "5000"}
    began = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        produce(address, numbered(topic, 0, 10, 1), **options)
    assert time.monotonic() - began < SOON_S
    assert count(kafka.bootstrap_servers, topic) == 0
    return caught.value


def sasl_door(mechanism: str) -> Door:
    return Door(name=mechanism, listener=Listener.SASL_PLAINTEXT, options=MECHANISMS[mechanism])


def check_nothing_was_given_away(heard: Overheard, mechanism: str) -> None:
    """No password, no other mechanism, and no request before the login."""
    assert password(User.ALICE).encode() not in bytes(heard.data)
    assert heard.apis <= HANDSHAKES
    named = {asked.mechanism for api, asked in heard.requests if api is ApiKey.SASL_HANDSHAKE}
    assert named <= {mechanism}


@pytest.mark.parametrize("mechanism", PROVING)
def test_only_plain_is_offered(kafka: SecuredKafka, topic: str, mechanism: str) -> None:
    def offer_plain(api: ApiKey, answer: Any) -> Any:
        if api is not ApiKey.SASL_HANDSHAKE:
            return answer
        return replace(answer, error_code=UNSUPPORTED_MECHANISM, mechanisms=("PLAIN",))

    with between(kafka.servers(Listener.SASL_PLAINTEXT), offer_plain) as (address, heard):
        error = refused(kafka, address, topic, sasl_door(mechanism))
    assert isinstance(error, AuthenticationError)
    assert f"SASL mechanism {mechanism}: it offers PLAIN" in str(error)
    check_nothing_was_given_away(heard, mechanism)
    assert ApiKey.SASL_AUTHENTICATE not in heard.apis


@pytest.mark.parametrize("mechanism", PROVING)
def test_the_broker_is_asked_for_plain_instead(
    kafka: SecuredKafka, topic: str, mechanism: str
) -> None:
    """It takes the client's first message for a name and a password, and they are none."""

    def ask_for_plain(api: ApiKey, frame: bytes) -> bytes:
        name = mechanism.encode()
        if api is not ApiKey.SASL_HANDSHAKE:
            return frame
        return frame.replace(len(name).to_bytes(2, "big") + name, b"\x00\x05PLAIN")

    target = kafka.servers(Listener.SASL_PLAINTEXT)
    with between(target, requests=ask_for_plain) as (address, heard):
        error = refused(kafka, address, topic, sasl_door(mechanism))
    assert isinstance(error, AuthenticationError)
    assert mechanism in str(error)
    assert ApiKey.SASL_AUTHENTICATE in heard.apis
    check_nothing_was_given_away(heard, mechanism)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    "hidden",
    [(ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE), (ApiKey.SASL_AUTHENTICATE,)],
    ids=["no SASL", "the SASL of old brokers"],
)
def test_the_broker_seems_to_know_no_sasl(
    kafka: SecuredKafka, topic: str, mechanism: str, hidden: tuple[ApiKey, ...]
) -> None:
    """Nothing is asked without a login, and none is sent outside of Kafka's frames (KIP-152)."""

    def hide(api: ApiKey, answer: Any) -> Any:
        return without(answer, *hidden) if api is ApiKey.API_VERSIONS else answer

    with between(kafka.servers(Listener.SASL_PLAINTEXT), hide) as (address, heard):
        assert isinstance(refused(kafka, address, topic, sasl_door(mechanism)), AuthenticationError)
    check_nothing_was_given_away(heard, mechanism)
    assert heard.apis == {ApiKey.API_VERSIONS}


def test_a_login_that_is_said_to_be_done_before_it_is(kafka: SecuredKafka, topic: str) -> None:
    """SCRAM: who does not know the password can't sign the end of it."""

    def say_done(api: ApiKey, answer: Any) -> Any:
        return replace(answer, auth_bytes=b"") if api is ApiKey.SASL_AUTHENTICATE else answer

    with between(kafka.servers(Listener.SASL_PLAINTEXT), say_done) as (address, heard):
        error = refused(kafka, address, topic, sasl_door("SCRAM-SHA-512"))
    assert isinstance(error, AuthenticationError)
    check_nothing_was_given_away(heard, "SCRAM-SHA-512")


# TLS.


def record_types(data: bytes) -> set[int]:
    """Of the records that a client has sent."""
    found, at = set(), 0
    while at < len(data):
        found.add(data[at])
        at += 5 + int.from_bytes(data[at + 3 : at + 5], "big")
    return found


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_tls_is_stripped(kafka: SecuredKafka, topic: str, mechanism: str) -> None:
    """He leads the client to a listener without TLS, or answers as one."""
    door = Door(
        name=mechanism, listener=Listener.SASL_SSL, options={**TRUST, **MECHANISMS[mechanism]}
    )
    with wiretap(kafka.servers(Listener.SASL_PLAINTEXT)) as (address, heard):
        error = refused(kafka, address, topic, door)
    assert "security.protocol" in str(error)
    assert record_types(bytes(heard.data)) <= {HANDSHAKE, ALERT}


SECURE = Door(name="TLS", listener=Listener.SSL, options=TRUST)


def test_the_server_is_said_to_have_chosen_tls_1_1(kafka: SecuredKafka, topic: str) -> None:
    def choose_1_1(data: bytes) -> bytes:
        hello = data[0] == HANDSHAKE and data[5] == 2  # ServerHello
        return data[:9] + TLS_1_1 + data[11:] if hello else data

    with wiretap(kafka.servers(Listener.TLS12), to_client=choose_1_1) as (address, heard):
        error = refused(kafka, address, topic, SECURE)
    assert isinstance(error, TlsError)
    assert "version" in str(error)
    assert record_types(bytes(heard.data)) <= {HANDSHAKE, ALERT}


def test_the_client_is_said_to_know_tls_1_2_alone(kafka: SecuredKafka, topic: str) -> None:
    """The broker answers in TLS 1.2 and marks that it knows 1.3 (RFC 8446, section 4.1.3)."""
    offered = b"\x00\x2b\x00\x05\x04" + TLS_1_3 + TLS_1_2
    assert len(offered) == 9

    def drop_1_3(data: bytes) -> bytes:
        return data.replace(offered, offered[:5] + TLS_1_2 + TLS_1_2)

    with wiretap(kafka.servers(Listener.SSL), to_broker=drop_1_3) as (address, heard):
        error = refused(kafka, address, topic, SECURE)
    assert offered in heard.data
    assert isinstance(error, TlsError)
    assert record_types(bytes(heard.data)) <= {HANDSHAKE, ALERT, CHANGE_CIPHER_SPEC}


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_a_server_of_old_tls(kafka: SecuredKafka, topic: str, version: str) -> None:
    """A real one, with a certificate that is trusted."""
    options = (version, "-cipher", "ALL:@SECLEVEL=0")
    with (
        openssl_server(kafka.stores.path("good.pem"), *options) as port,
        wiretap(f"127.0.0.1:{port}") as (address, heard),
    ):
        error = refused(kafka, address, topic, SECURE)
    assert isinstance(error, TlsError)
    assert "version" in str(error)
    assert record_types(bytes(heard.data)) <= {HANDSHAKE, ALERT}
