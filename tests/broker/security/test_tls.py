"""TLS with other clients: trust, client certificates and errors."""

import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError
from tests.broker.security.clients import WRITERS, Login, NotDeliveredError, Writer
from tools.support.raw_client import RawClient, batch, produce


@pytest.fixture(scope="module")
def tls_kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}, tls=True) as broker:
        yield broker


@pytest.fixture(scope="module")
def other_broker() -> EmbeddedBroker:
    """Return a broker that is not started, with a different certificate authority."""
    return EmbeddedBroker(tls=True)


@pytest.fixture(params=WRITERS)
def write(request: pytest.FixtureRequest) -> Writer:
    return WRITERS[request.param]


def address(broker: EmbeddedBroker) -> tuple[str, int]:
    host, port = broker.bootstrap_servers.rsplit(":", 1)
    return host, int(port)


def connect(
    broker: EmbeddedBroker, context: ssl.SSLContext | None = None, name: str = "localhost"
) -> ssl.SSLSocket:
    context = context or ssl.create_default_context(cafile=broker.ca_file)
    plain = socket.create_connection(address(broker), 10)
    try:
        return context.wrap_socket(plain, server_hostname=name)
    except BaseException:
        plain.close()
        raise


def test_client_that_trusts_the_authority_writes(tls_kafka: EmbeddedBroker, write: Writer) -> None:
    before = tls_kafka.end_offsets("t")[0]
    write(tls_kafka, Login(ca_file=tls_kafka.ca_file), "t", b"x")
    assert tls_kafka.end_offsets("t")[0] == before + 1


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_versions_and_names(tls_kafka: EmbeddedBroker, version: ssl.TLSVersion, name: str) -> None:
    context = ssl.create_default_context(cafile=tls_kafka.ca_file)
    context.minimum_version = context.maximum_version = version
    with connect(tls_kafka, context, name) as client:
        assert client.version() == version.name.replace("_", ".")


def test_tls_1_1_is_rejected(tls_kafka: EmbeddedBroker) -> None:
    context = ssl.create_default_context(cafile=tls_kafka.ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        connect(tls_kafka, context)


class TlsRawClient(RawClient):
    """A raw client with a TLS socket."""

    def __init__(self, broker: EmbeddedBroker, context: ssl.SSLContext | None = None) -> None:
        super().__init__(broker.bootstrap_servers)
        context = context or ssl.create_default_context(cafile=broker.ca_file)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


def test_plaintext_client_gets_an_alert(tls_kafka: EmbeddedBroker) -> None:
    """As with Kafka, a client interprets the alert as a frame of 352,518,912 bytes."""
    with socket.create_connection(address(tls_kafka), 10) as client:
        client.sendall(b"\0\0\0\x10\0\x12\0\0\0\0\0\1\xff\xff" + bytes(6))
        client.settimeout(10)
        assert client.recv(5)[:3] == b"\x15\x03\x03"
        assert client.recv(100)
        assert client.recv(100) == b""


def test_slow_handshake_does_not_block_others(other_broker: EmbeddedBroker) -> None:
    with EmbeddedBroker(topics={"t": 1}, tls=True, handshake_timeout_ms=3000) as broker:
        started = time.monotonic()
        slow = [socket.create_connection(address(broker), 10) for _ in range(20)]
        for unresponsive in slow:
            unresponsive.sendall(b"\x16\x03\x01\x02\x00\x01")
        with TlsRawClient(broker) as client:
            assert produce(client, "t", bytes(batch())).error_code == 0
        assert time.monotonic() - started < 3.0
        for unresponsive in slow:
            with unresponsive:
                unresponsive.settimeout(60)
                assert unresponsive.recv(1) == b""
        assert time.monotonic() - started < 60


def test_certificate_changes_at_runtime(tls_kafka: EmbeddedBroker) -> None:
    def serial() -> object:
        with connect(tls_kafka) as client:
            certificate = client.getpeercert()
            assert certificate is not None
            return certificate["serialNumber"]

    with TlsRawClient(tls_kafka) as open_before:
        first = serial()
        tls_kafka.change_certificate()
        assert serial() != first
        assert produce(open_before, "t", bytes(batch())).error_code == 0


@pytest.mark.parametrize(
    ("change", "verify_code"),
    [({"hosts": ["elsewhere.example"]}, 62), ({"expires_in": timedelta(seconds=-5)}, 10)],
)
def test_invalid_certificates_on_demand(change: dict[str, Any], verify_code: int) -> None:
    """The codes are X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_CERT_HAS_EXPIRED."""
    with EmbeddedBroker(tls=True) as broker:
        broker.change_certificate(**change)
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            connect(broker)
    assert caught.value.verify_code == verify_code


@pytest.fixture(scope="module")
def client_auth_kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1}, tls=True, client_certificates="required") as broker:
        yield broker


class TestClientCertificates:
    def test_client_with_a_certificate_writes(
        self, client_auth_kafka: EmbeddedBroker, write: Writer
    ) -> None:
        files = client_auth_kafka.client_certificate_files(
            client_auth_kafka.client_certificate("alice")
        )
        write(
            client_auth_kafka,
            Login(ca_file=client_auth_kafka.ca_file, certificate=files),
            "t",
            b"x",
        )

    def test_client_without_a_certificate_delivers_nothing(
        self, client_auth_kafka: EmbeddedBroker, write: Writer
    ) -> None:
        before = client_auth_kafka.end_offsets("t")
        with pytest.raises(NotDeliveredError):
            write(client_auth_kafka, Login(ca_file=client_auth_kafka.ca_file), "t", b"x")
        assert client_auth_kafka.end_offsets("t") == before

    def test_certificate_of_another_authority(
        self, client_auth_kafka: EmbeddedBroker, other_broker: EmbeddedBroker, write: Writer
    ) -> None:
        files = client_auth_kafka.client_certificate_files(other_broker.client_certificate("alice"))
        with pytest.raises(NotDeliveredError):
            write(
                client_auth_kafka,
                Login(ca_file=client_auth_kafka.ca_file, certificate=files),
                "t",
                b"x",
            )

    def test_client_reads_the_alert(self, client_auth_kafka: EmbeddedBroker) -> None:
        """In TLS 1.3, the client can send data before its certificate is checked."""
        for _ in range(20):
            with connect(client_auth_kafka) as client:
                client.sendall(bytes(100))
                with pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"):
                    client.recv(1)

    def test_requested_certificate_is_optional(self, write: Writer) -> None:
        with EmbeddedBroker(topics={"t": 1}, tls=True, client_certificates="requested") as broker:
            write(broker, Login(ca_file=broker.ca_file), "t", b"x")


def test_no_temporary_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"certificates cannot be written.*Set TMPDIR"):
        EmbeddedBroker(tls=True).start()
