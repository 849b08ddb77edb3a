"""A context from PEM stores, proven by handshakes between real ssl objects in memory."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.model import (
    KeyStore,
    StoreType,
    TlsConfig,
    TlsVersion,
    TrustStore,
)
from spark_kafka_sink.security.tls.context import client_context
from tests.support.certificates import CertificateAuthority, KeyKind, self_signed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.certificates import IssuedCertificate

AUTHORITY = CertificateAuthority()
SERVER = AUTHORITY.server("localhost", "127.0.0.1")
CLIENT = AUTHORITY.client("alice")


def pem_trust(text: str) -> TrustStore:
    option = "kafka.ssl.truststore.certificates"
    return TrustStore(type=StoreType.PEM, certificates=Secret(text, option))


def inline_keys(client: IssuedCertificate, password: str | None = None) -> KeyStore:
    return KeyStore(
        type=StoreType.PEM,
        certificate_chain=Secret(client.chain_pem, "kafka.ssl.keystore.certificate.chain"),
        key=Secret(client.key_pem(password), "kafka.ssl.keystore.key"),
        key_password=Secret(password, "kafka.ssl.key.password") if password else None,
    )


def server_context(folder: Path, server: IssuedCertificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server.write(folder))
    return context


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> ssl.SSLObject:
    """Both sides of a connection, bytes carried by hand; returns the client's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server, server_hostname=host)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    open_sides = [near, far]
    while open_sides:
        side = open_sides.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            open_sides.append(side)
    far.write(b"hello")
    assert near.read() == b"hello"
    near.write(b"hello")
    assert far.read() == b"hello"
    return near


def test_a_pem_file_is_trusted(tmp_path: Path) -> None:
    location = str(AUTHORITY.write(tmp_path))
    config = TlsConfig(truststore=TrustStore(type=StoreType.PEM, location=location))
    near = handshake(client_context(config), server_context(tmp_path, SERVER), "localhost")
    assert near.version() == "TLSv1.3"


@pytest.mark.parametrize("separator", [" ", "\\n", "\r\n", "\n  "])
def test_certificates_in_an_option_may_stand_on_one_line(tmp_path: Path, separator: str) -> None:
    text = AUTHORITY.certificate_pem.strip().replace("\n", separator)
    context = client_context(TlsConfig(truststore=pem_trust(text)))
    handshake(context, server_context(tmp_path, SERVER), "127.0.0.1")


def test_another_authority_is_not_believed(tmp_path: Path) -> None:
    other = CertificateAuthority("Another")
    context = client_context(TlsConfig(truststore=pem_trust(other.certificate_pem)))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, server_context(tmp_path, SERVER), "localhost")


def test_a_wrong_host_is_refused_unless_the_check_is_off(tmp_path: Path) -> None:
    trust = pem_trust(AUTHORITY.certificate_pem)
    server = server_context(tmp_path, SERVER)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(client_context(TlsConfig(truststore=trust)), server, "broker.example.com")
    unchecked = client_context(TlsConfig(truststore=trust, check_hostname=False))
    handshake(unchecked, server, "broker.example.com")


def test_without_the_check_of_names_the_chain_is_still_verified(tmp_path: Path) -> None:
    trust = pem_trust(CertificateAuthority("Another").certificate_pem)
    context = client_context(TlsConfig(truststore=trust, check_hostname=False))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, server_context(tmp_path, SERVER), "localhost")


@pytest.mark.parametrize("version", list(TlsVersion))
def test_one_version_alone(tmp_path: Path, version: TlsVersion) -> None:
    config = TlsConfig(truststore=pem_trust(AUTHORITY.certificate_pem), protocols=(version,))
    near = handshake(client_context(config), server_context(tmp_path, SERVER), "localhost")
    assert near.version() == version.value


def test_any_certificate_in_the_truststore_ends_a_chain(tmp_path: Path) -> None:
    """As with Java's PKIX: an intermediate authority, or the broker's own certificate."""
    intermediate = CertificateAuthority("Intermediate", parent=AUTHORITY)
    server = intermediate.server("localhost")
    for text in (intermediate.certificate_pem, server.certificate_pem):
        context = client_context(TlsConfig(truststore=pem_trust(text)))
        handshake(context, server_context(tmp_path, server), "localhost")
    own = self_signed("localhost")
    context = client_context(TlsConfig(truststore=pem_trust(own.certificate_pem)))
    handshake(context, server_context(tmp_path, own), "localhost")


@pytest.mark.parametrize("version", list(TlsVersion))
@pytest.mark.parametrize("kind", list(KeyKind))
@pytest.mark.parametrize("password", [None, "it's secret"])
def test_a_client_shows_its_certificate(
    tmp_path: Path, version: TlsVersion, kind: KeyKind, password: str | None
) -> None:
    client = AUTHORITY.client("alice", kind=kind)
    trust = pem_trust(AUTHORITY.certificate_pem)
    server = server_context(tmp_path, SERVER)
    server.verify_mode = ssl.CERT_REQUIRED
    server.load_verify_locations(cadata=AUTHORITY.certificate_pem)
    keystore = inline_keys(client, password)
    config = TlsConfig(truststore=trust, keystore=keystore, protocols=(version,))
    handshake(client_context(config), server, "localhost")


def test_a_wrong_key_password_is_said_without_the_password() -> None:
    keystore = KeyStore(
        type=StoreType.PEM,
        certificate_chain=Secret(CLIENT.chain_pem, "kafka.ssl.keystore.certificate.chain"),
        key=Secret(CLIENT.key_pem("right"), "kafka.ssl.keystore.key"),
        key_password=Secret("hunter2", "kafka.ssl.key.password"),
    )
    with pytest.raises(ConfigError, match=r"does not open with kafka\.ssl\.key\.password") as said:
        client_context(TlsConfig(keystore=keystore))
    assert "hunter2" not in str(said.value)


def test_a_key_of_another_certificate_is_said() -> None:
    keystore = KeyStore(
        type=StoreType.PEM,
        certificate_chain=Secret(CLIENT.chain_pem, "kafka.ssl.keystore.certificate.chain"),
        key=Secret(SERVER.key_pem(), "kafka.ssl.keystore.key"),
    )
    with pytest.raises(ConfigError, match="does not belong to the first certificate"):
        client_context(TlsConfig(keystore=keystore))


def test_a_missing_truststore_is_named_with_option_and_host(tmp_path: Path) -> None:
    store = TrustStore(type=StoreType.PEM, location=str(tmp_path / "nowhere.pem"))
    with pytest.raises(ConfigError, match=r"kafka\.ssl\.truststore\.location names .*nowhere\.pem"):
        client_context(TlsConfig(truststore=store))
