"""The broker's certificate or a user's password changes while a job writes."""

from __future__ import annotations

import hashlib
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import psutil
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from spark_kafka_sink.common.errors import AuthenticationError, TlsError
from tests.integration.security.load import for_seconds, numbers, write_until
from tests.integration.support.producing import numbered, session
from tests.support.readers import await_count
from tests.support.security.doors import (
    LIBRDKAFKA_TRUST,
    TRUST,
    Door,
    librdkafka_password,
    password_options,
)
from tests.support.security.entering import await_login
from tests.support.security.listeners import REAUTH_MS, Listener, keystore_settings
from tests.support.security.users import User, password, set_scram_password

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_kafka_sink.producer.session import ProducerSession
    from tests.support.security.secured import SecuredKafka

_WAIT_S = 60
SOON_S = 30
RENEWING = Door(name="renewing", listener=Listener.RENEWING, options=TRUST)


def install(kafka: SecuredKafka, name: str) -> None:
    """Give the listener another certificate, and wait until it shows it."""
    entries = [
        ConfigEntry(
            f"{Listener.RENEWING.prefix}{key}", value, incremental_operation=AlterConfigOpType.SET
        )
        for key, value in keystore_settings(kafka.stores.path(f"{name}.p12")).items()
    ]
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    client = kafka.admin.client()
    client.incremental_alter_configs([broker])[broker].result(_WAIT_S)
    wanted = _print(kafka.stores.path(f"{name}.pem").read_text())
    host, port = kafka.servers(Listener.RENEWING).split(":")
    deadline = time.monotonic() + _WAIT_S
    while _print(ssl.get_server_certificate((host, int(port)))) != wanted:
        assert time.monotonic() < deadline, f"the broker keeps its certificate, not {name}"
        time.sleep(0.1)


def await_closed(kafka: SecuredKafka) -> None:
    """Wait until this process has closed its connections to the listener, as they are idle."""
    port = int(kafka.servers(Listener.RENEWING).rpartition(":")[2])
    deadline = time.monotonic() + _WAIT_S
    while any(
        each.raddr and each.raddr.port == port and each.status == psutil.CONN_ESTABLISHED
        for each in psutil.Process().net_connections("tcp")
    ):
        assert time.monotonic() < deadline, "the idle connection stays open"
        time.sleep(0.05)


def _print(pem: str) -> str:
    """Fingerprint of the first certificate of a text."""
    certificate = x509.load_pem_x509_certificates(pem.encode())[0]
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


@pytest.fixture
def renewing(kafka: SecuredKafka) -> Iterator[SecuredKafka]:
    """Whose listener gets its certificate back."""
    yield kafka
    install(kafka, "renewing")


def test_a_certificate_is_renewed_in_mid_job(renewing: SecuredKafka, topic: str) -> None:
    """The client closes idle connections soon, so that it meets the new one in the same session."""
    options = {**RENEWING.java_options(renewing), "connections.max.idle.ms": "200"}
    with session(renewing.servers(Listener.RENEWING), **options) as producer:
        producer.append(numbered(topic, 0, 300, 3))
        producer.flush()
        install(renewing, "renewed")
        await_closed(renewing)
        producer.append(numbered(topic, 300, 300, 3))
        producer.flush()
    assert numbers(renewing, topic) == list(range(600))


def test_a_certificate_that_nobody_trusts_ends_the_job(renewing: SecuredKafka, topic: str) -> None:
    options = {**RENEWING.java_options(renewing), "connections.max.idle.ms": "200"}
    with session(renewing.servers(Listener.RENEWING), **options) as producer:
        producer.append(numbered(topic, 0, 300, 3))
        producer.flush()
        install(renewing, "unknown_ca")
        await_closed(renewing)
        started = time.monotonic()
        with pytest.raises(TlsError, match=r"ssl\.truststore"):
            _append_and_flush(producer, topic)
        assert time.monotonic() - started < SOON_S
    assert numbers(renewing, topic) == list(range(300))


def _append_and_flush(producer: ProducerSession, topic: str) -> None:
    producer.append(numbered(topic, 300, 300, 3))
    producer.flush()


def _door(secret: str) -> Door:
    """A listener that asks again every three seconds."""
    login = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": User.DAVE.value,
        "sasl.password": secret,
    }
    return Door(
        name="dave",
        listener=Listener.REAUTH,
        options={**TRUST, **login},
        librdkafka={**LIBRDKAFKA_TRUST, **librdkafka_password("SCRAM-SHA-512", User.DAVE, secret)},
    )


def change_password(kafka: SecuredKafka, secret: str) -> None:
    """Give DAVE another password, and wait until the broker knows it."""
    set_scram_password(kafka.admin.client(), User.DAVE, secret)
    await_login(_door(secret).confluent_options(kafka))


@pytest.fixture
def dave(kafka: SecuredKafka) -> Iterator[SecuredKafka]:
    """He gets his password back."""
    yield kafka
    change_password(kafka, password(User.DAVE))


def test_a_password_changes_and_the_job_is_told(
    dave: SecuredKafka, topic: str, tmp_path: Path
) -> None:
    """The file that the option names has the new password before the broker asks again."""
    secret = tmp_path / "password"
    secret.write_text(password(User.DAVE))
    with ThreadPoolExecutor(1) as pool:
        over = for_seconds(2.5 * REAUTH_MS / 1000)
        writing = pool.submit(write_until, dave, _door(f"file:{secret}"), topic, over)
        await_count(dave.bootstrap_servers, topic, 1)
        secret.write_text("another-secret")
        change_password(dave, "another-secret")
        written = writing.result(_WAIT_S)
    assert numbers(dave, topic) == list(range(written))


def test_a_password_changes_and_the_job_is_not_told(dave: SecuredKafka, topic: str) -> None:
    """The broker asks again within three seconds, and that is the end, soon."""
    with ThreadPoolExecutor(1) as pool:
        over = for_seconds(_WAIT_S)
        writing = pool.submit(write_until, dave, _door(password(User.DAVE)), topic, over)
        await_count(dave.bootstrap_servers, topic, 1)
        change_password(dave, "another-secret")
        with pytest.raises(AuthenticationError, match="SCRAM-SHA-512"):
            writing.result(REAUTH_MS / 1000 + SOON_S)
    found = numbers(dave, topic)
    assert len(found) == len(set(found))
    assert found


def test_a_new_password_lets_nobody_in_with_the_old(dave: SecuredKafka, topic: str) -> None:
    change_password(dave, "another-secret")
    door = Door(
        name="new",
        listener=Listener.SASL_SSL,
        options={**TRUST, **password_options("SCRAM-SHA-256", User.DAVE, "another-secret")},
    )
    written = write_until(dave, door, topic, for_seconds(0.1))
    assert numbers(dave, topic) == list(range(written))
    with pytest.raises(AuthenticationError):
        write_until(dave, _door(password(User.DAVE)), topic, for_seconds(_WAIT_S))
