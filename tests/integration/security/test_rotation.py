"""Certificates and passwords that change while a producer writes."""

import hashlib
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from spark_kafka_sink.common.errors import AuthenticationError, TlsError
from spark_kafka_sink.producer.session import ProducerSession
from tests.integration.security.continuous_writer import for_seconds, write_until
from tests.support.producer_writes import numbered, session
from tests.support.readers import await_count
from tests.support.security.client_configs import (
    TRUST,
    ClientConfig,
    broker_options,
    librdkafka_password,
    password_options,
)
from tests.support.security.confluent_client import await_login
from tests.support.security.listeners import REAUTH_MS, Listener, keystore_settings
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User, password, set_scram_password
from tests.support.waiting import wait_until
from tools.support.readers import numbers_in

WAIT_S = 60
FAILURE_LIMIT_S = 30
RENEWING = ClientConfig("renewing", Listener.RENEWING, TRUST)


def install(kafka: SecuredKafka, name: str) -> None:
    """Change the certificate of the listener and wait until it is effective."""
    entries = [
        ConfigEntry(
            f"{Listener.RENEWING.prefix}{key}", value, incremental_operation=AlterConfigOpType.SET
        )
        for key, value in keystore_settings(kafka.stores.path(f"{name}.p12")).items()
    ]
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=entries)
    client = kafka.admin.client()
    client.incremental_alter_configs([broker])[broker].result(WAIT_S)
    expected = fingerprint(kafka.stores.path(f"{name}.pem").read_text())
    host, port = kafka.servers(Listener.RENEWING).split(":")
    wait_until(lambda: fingerprint(ssl.get_server_certificate((host, int(port)))) == expected)


def await_closed(kafka: SecuredKafka) -> None:
    """Wait until this process has closed its idle connections to the listener."""
    port = int(kafka.servers(Listener.RENEWING).rpartition(":")[2])

    def is_open() -> bool:
        connections = psutil.Process().net_connections("tcp")
        open_ports = [c.raddr.port for c in connections if c.status == psutil.CONN_ESTABLISHED]
        return port in open_ports

    wait_until(lambda: not is_open())


def fingerprint(pem: str) -> str:
    """Return the fingerprint of the first certificate in a PEM text."""
    certificate = x509.load_pem_x509_certificates(pem.encode())[0]
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


@pytest.fixture
def renewing(kafka: SecuredKafka) -> Iterator[SecuredKafka]:
    """Yield the cluster and restore its certificate afterwards."""
    yield kafka
    install(kafka, "renewing")


def test_renewed_server_certificate(renewing: SecuredKafka, topic: str) -> None:
    """The client closes idle connections, so it reconnects with the new certificate."""
    options = {**RENEWING.java_options(renewing), "connections.max.idle.ms": "200"}
    with session(renewing.servers(Listener.RENEWING), **options) as producer:
        producer.append(numbered(topic, 0, 300, 3))
        producer.flush()
        install(renewing, "renewed")
        await_closed(renewing)
        producer.append(numbered(topic, 300, 300, 3))
        producer.flush()
    assert numbers_in(renewing.bootstrap_servers, topic) == list(range(600))


def test_untrusted_server_certificate_fails_the_write(renewing: SecuredKafka, topic: str) -> None:
    options = {**RENEWING.java_options(renewing), "connections.max.idle.ms": "200"}
    with session(renewing.servers(Listener.RENEWING), **options) as producer:
        producer.append(numbered(topic, 0, 300, 3))
        producer.flush()
        install(renewing, "unknown_ca")
        await_closed(renewing)
        started = time.monotonic()
        with pytest.raises(TlsError):
            append_and_flush(producer, topic)
        assert time.monotonic() - started < FAILURE_LIMIT_S
    assert numbers_in(renewing.bootstrap_servers, topic) == list(range(300))


def append_and_flush(producer: ProducerSession, topic: str) -> None:
    producer.append(numbered(topic, 300, 300, 3))
    producer.flush()


def client_of(secret: str) -> ClientConfig:
    """Return a configuration for the listener with reauthentication every three seconds."""
    login = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": User.DAVE.value,
        "sasl.password": secret,
    }
    return ClientConfig("dave", Listener.REAUTH, {**TRUST, **login})


def change_password(kafka: SecuredKafka, secret: str) -> None:
    """Change DAVE's password and wait until it is effective."""
    set_scram_password(kafka.admin.client(), User.DAVE, secret)
    await_login(
        {
            **broker_options(kafka, Listener.REAUTH),
            **librdkafka_password("SCRAM-SHA-512", User.DAVE, secret),
            "ssl.ca.location": kafka.placeholders["tls"] + "/trust.pem",
        }
    )


@pytest.fixture
def dave(kafka: SecuredKafka) -> Iterator[SecuredKafka]:
    """Yield the cluster and restore DAVE's password afterwards."""
    yield kafka
    change_password(kafka, password(User.DAVE))


def test_changed_password_is_read_from_file(dave: SecuredKafka, topic: str, tmp_path: Path) -> None:
    """The password file contains the new password before the next reauthentication."""
    secret = tmp_path / "password"
    secret.write_text(password(User.DAVE))
    with ThreadPoolExecutor(1) as pool:
        over = for_seconds(2.5 * REAUTH_MS / 1000)
        writing = pool.submit(write_until, dave, client_of(f"file:{secret}"), topic, over)
        await_count(dave.bootstrap_servers, topic, 1)
        secret.write_text("another-secret")
        change_password(dave, "another-secret")
        written = writing.result(WAIT_S)
    assert numbers_in(dave.bootstrap_servers, topic) == list(range(written))


def test_outdated_password_fails_reauthentication(dave: SecuredKafka, topic: str) -> None:
    with ThreadPoolExecutor(1) as pool:
        over = for_seconds(WAIT_S)
        writing = pool.submit(write_until, dave, client_of(password(User.DAVE)), topic, over)
        await_count(dave.bootstrap_servers, topic, 1)
        change_password(dave, "another-secret")
        with pytest.raises(AuthenticationError):
            writing.result(REAUTH_MS / 1000 + FAILURE_LIMIT_S)
    written = numbers_in(dave.bootstrap_servers, topic)
    assert len(written) == len(set(written))
    assert written


def test_old_password_is_rejected(dave: SecuredKafka, topic: str) -> None:
    change_password(dave, "another-secret")
    client = ClientConfig(
        "new",
        Listener.SASL_SSL,
        {**TRUST, **password_options("SCRAM-SHA-256", User.DAVE, "another-secret")},
    )
    written = write_until(dave, client, topic, for_seconds(0.1))
    assert numbers_in(dave.bootstrap_servers, topic) == list(range(written))
    with pytest.raises(AuthenticationError):
        write_until(dave, client_of(password(User.DAVE)), topic, for_seconds(WAIT_S))
