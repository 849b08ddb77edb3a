"""Contexts from PEM stores, verified by handshakes between real ssl objects in memory."""

import errno
import ssl
from pathlib import Path
from typing import NoReturn

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    KeyStore,
    StoreType,
    TlsConfig,
    TlsVersion,
    TrustStore,
)
from spark_kafka_sink.kafka.security.tls.client_context import (
    ClientSslContext,
    check_stores,
    create_client_context,
)
from spark_kafka_sink.kafka.security.tls.failures import tls_failure
from tests.support.handshakes import demanding_context, handshake, server_context
from tools.support.certificates import CertificateAuthority, IssuedCertificate, KeyKind, self_signed

AUTHORITY = CertificateAuthority()
SERVER = AUTHORITY.server("localhost", "127.0.0.1")
CLIENT = AUTHORITY.client("alice")
BROAD = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


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


@pytest.mark.parametrize("separator", [" ", "\\n", "\r\n", "\n  "])
def test_certificates_in_an_option_may_be_on_one_line(tmp_path: Path, separator: str) -> None:
    text = AUTHORITY.certificate_pem.strip().replace("\n", separator)
    context = create_client_context(TlsConfig(truststore=pem_trust(text)))
    handshake(context, server_context(tmp_path, SERVER), "127.0.0.1")


def test_wrong_host_is_rejected_unless_the_check_is_disabled(tmp_path: Path) -> None:
    trust = pem_trust(AUTHORITY.certificate_pem)
    server = server_context(tmp_path, SERVER)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(create_client_context(TlsConfig(truststore=trust)), server, "broker.example.com")
    unchecked = create_client_context(TlsConfig(truststore=trust, check_hostname=False))
    handshake(unchecked, server, "broker.example.com")


def test_chain_is_verified_without_host_name_check(tmp_path: Path) -> None:
    trust = pem_trust(CertificateAuthority("Another").certificate_pem)
    context = create_client_context(TlsConfig(truststore=trust, check_hostname=False))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, server_context(tmp_path, SERVER), "localhost")


@pytest.mark.parametrize("version", list(TlsVersion))
def test_single_version(tmp_path: Path, version: TlsVersion) -> None:
    config = TlsConfig(truststore=pem_trust(AUTHORITY.certificate_pem), protocols=(version,))
    near = handshake(create_client_context(config), server_context(tmp_path, SERVER), "localhost")
    assert near.version() == version.value


def test_any_certificate_in_the_truststore_is_a_trust_anchor(tmp_path: Path) -> None:
    """As with Java's PKIX: an intermediate authority, or the broker's own certificate."""
    intermediate = CertificateAuthority("Intermediate", parent=AUTHORITY)
    server = intermediate.server("localhost")
    for text in (intermediate.certificate_pem, server.certificate_pem):
        context = create_client_context(TlsConfig(truststore=pem_trust(text)))
        handshake(context, server_context(tmp_path, server), "localhost")
    own = self_signed("localhost")
    context = create_client_context(TlsConfig(truststore=pem_trust(own.certificate_pem)))
    handshake(context, server_context(tmp_path, own), "localhost")


@pytest.mark.parametrize("version", list(TlsVersion))
@pytest.mark.parametrize("kind", [KeyKind.EC, KeyKind.RSA])
@pytest.mark.parametrize("password", [None, "it's secret"])
def test_client_sends_its_certificate(
    tmp_path: Path, version: TlsVersion, kind: KeyKind, password: str | None
) -> None:
    client = AUTHORITY.client("alice", kind=kind)
    trust = pem_trust(AUTHORITY.certificate_pem)
    server = demanding_context(tmp_path, SERVER, AUTHORITY)
    keystore = inline_keys(client, password)
    config = TlsConfig(truststore=trust, keystore=keystore, protocols=(version,))
    handshake(create_client_context(config), server, "localhost")


def test_key_of_another_certificate_is_reported() -> None:
    keystore = KeyStore(
        type=StoreType.PEM,
        certificate_chain=Secret(CLIENT.chain_pem, "kafka.ssl.keystore.certificate.chain"),
        key=Secret(SERVER.key_pem(), "kafka.ssl.keystore.key"),
    )
    with pytest.raises(ConfigError, match="first certificate"):
        create_client_context(TlsConfig(keystore=keystore))


@pytest.mark.parametrize(
    ("suites", "version", "agreed"),
    [
        ((BROAD,), "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (("ECDHE-ECDSA-CHACHA20-POLY1305",), "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        (("TLS_AES_256_GCM_SHA384",), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
        ((BROAD, "TLS_AES_256_GCM_SHA384"), "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_suites_select_the_version(
    tmp_path: Path, suites: tuple[str, ...], version: str, agreed: str
) -> None:
    trust = pem_trust(AUTHORITY.certificate_pem)
    context = create_client_context(TlsConfig(truststore=trust, cipher_suites=suites))
    near = handshake(context, server_context(tmp_path, SERVER), "localhost")
    cipher = near.cipher()
    assert cipher is not None
    assert (near.version(), cipher[0]) == (version, agreed)


@pytest.mark.parametrize(
    ("suites", "protocols", "words"),
    [
        ((BROAD,), (TlsVersion.TLS_1_3,), "kafka.ssl.enabled.protocols"),
        (("TLS_AES_256_GCM_SHA384",), (TlsVersion.TLS_1_2,), "kafka.ssl.enabled.protocols"),
        (("TLS_RSA_WITH_NOTHING",), tuple(TlsVersion), "OpenSSL supports none"),
        (("TLS_ECDHE_RSA_WITH_NULL_SHA",), tuple(TlsVersion), "OpenSSL supports none"),
    ],
)
def test_unusable_suites_are_rejected(
    suites: tuple[str, ...], protocols: tuple[TlsVersion, ...], words: str
) -> None:
    config = TlsConfig(cipher_suites=suites, protocols=protocols)
    with pytest.raises(ConfigError, match=words):
        create_client_context(config)


def test_driver_detects_wrong_password(tmp_path: Path) -> None:
    """Before any task: Spark would run each task four times."""
    path = CLIENT.write(tmp_path, "client", password="right")
    wrong = Secret("wrong", "kafka.ssl.key.password")
    keystore = KeyStore(type=StoreType.PEM, location=str(path), key_password=wrong)
    with pytest.raises(ConfigError):
        check_stores(TlsConfig(keystore=keystore))


def test_driver_skips_files_that_exist_only_on_executors(tmp_path: Path) -> None:
    nowhere, elsewhere = str(tmp_path / "nowhere.pem"), f"file:{tmp_path}/nowhere"
    here = str(CLIENT.write(tmp_path, "client", password="right"))
    unset = Secret("env:NOT_SET_ON_THE_DRIVER", "kafka.ssl.key.password")
    for keystore in (
        KeyStore(type=StoreType.PEM, location=nowhere),
        KeyStore(type=StoreType.PEM, location=here, key_password=unset),
        KeyStore(type=StoreType.PEM, location=here, key_password=Secret(elsewhere, "p")),
    ):
        truststore = TrustStore(type=StoreType.PEM, location=nowhere)
        check_stores(TlsConfig(truststore=truststore, keystore=keystore))


def refuse(*_args: object) -> NoReturn:
    raise PermissionError(errno.EPERM, "Operation not permitted")


@pytest.mark.parametrize("memory_files", ["allowed", "missing", "refused"])
def test_private_key_is_never_written_unencrypted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_files: str
) -> None:
    in_memory = memory_files == "allowed"
    if memory_files == "missing":
        monkeypatch.delattr("os.memfd_create")
    if memory_files == "refused":
        monkeypatch.setattr("os.memfd_create", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[str] = []
    load = ClientSslContext.load_cert_chain

    def look(context: ClientSslContext, path: str, password: str) -> None:
        seen.append(Path(path).read_text())
        assert Path(path).stat().st_mode & 0o077 == 0 or in_memory
        load(context, path, password=password)

    monkeypatch.setattr(ClientSslContext, "load_cert_chain", look)
    create_client_context(TlsConfig(keystore=inline_keys(CLIENT)))
    assert "ENCRYPTED PRIVATE KEY" in seen[0]
    assert "BEGIN PRIVATE KEY" not in seen[0]
    assert list(tmp_path.iterdir()) == []


def test_no_place_for_the_private_key_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.memfd_create", refuse)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"No such file or directory\. Set TMPDIR"):
        create_client_context(TlsConfig(keystore=inline_keys(CLIENT)))


@pytest.mark.parametrize("variables", [("SSL_CERT_FILE", "SSL_CERT_DIR"), ("SSL_CERT_FILE",)])
def test_error_names_variables_that_replace_the_system_authorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: tuple[str, ...]
) -> None:
    broken = tmp_path / "empty.pem"
    broken.touch()
    kinds = {"SSL_CERT_FILE": "file", "SSL_CERT_DIR": "folder"}
    texts = [f"the environment variable {name} is the {kinds[name]} {broken}" for name in variables]
    for name in variables:
        monkeypatch.setenv(name, str(broken))
    with pytest.raises(ssl.SSLCertVerificationError) as caught:
        handshake(create_client_context(TlsConfig()), server_context(tmp_path, SERVER), "localhost")
    error = tls_failure(caught.value, TlsConfig(), "localhost:1")
    assert [text for text in texts if text in str(error)] == texts
    broken.unlink()
    if len(variables) == 2:
        with pytest.raises(ConfigError, match="no certificate authorities") as missing:
            create_client_context(TlsConfig())
        assert [text for text in texts if text in str(missing.value)] == texts


def test_error_names_empty_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, "")
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE is empty; .* SSL_CERT_DIR is empty"):
        create_client_context(TlsConfig())


def test_server_name_indication(tmp_path: Path) -> None:
    """Proxies use it to find the broker; IP addresses are not sent."""
    names: list[str | None] = []
    server = server_context(tmp_path, SERVER)
    server.sni_callback = lambda _connection, name, _context: names.append(name)
    context = create_client_context(TlsConfig(truststore=pem_trust(AUTHORITY.certificate_pem)))
    for host in ("localhost", "127.0.0.1"):
        handshake(context, server, host)
    assert names == ["localhost", None]
