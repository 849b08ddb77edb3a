"""Each TLS error message, from a real connection to openssl's server or to other servers."""

import re
import socket
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError, TlsError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    KeyStore,
    StoreType,
    TlsConfig,
    TlsVersion,
    TrustStore,
)
from spark_kafka_sink.kafka.security.tls.client_context import (
    PeerCertificateError,
    create_client_context,
    warn_level,
)
from spark_kafka_sink.kafka.security.tls.failures import parse_peer_certificate, tls_failure
from tests.support.keytool import openssl
from tests.support.tls_servers import connection_error, openssl_server, plain_server
from tools.support.certificates import (
    EXPIRED,
    NOT_YET_VALID,
    CertificateAuthority,
    IssuedCertificate,
    KeyKind,
    self_signed,
)

AUTHORITY = CertificateAuthority()
STRANGER = CertificateAuthority("Stranger")
SERVER = AUTHORITY.server("localhost", "127.0.0.1")
BROKER = "localhost:9093"
TRUST = TrustStore(
    type=StoreType.PEM,
    certificates=Secret(AUTHORITY.certificate_pem, "kafka.ssl.truststore.certificates"),
)
CONFIG = TlsConfig(truststore=TRUST)
TLS_1_2, TLS_1_3 = (TlsVersion.TLS_1_2,), (TlsVersion.TLS_1_3,)

PEER_AUTHORITY = CertificateAuthority("Stranger")
ODD_NAMES = {
    "EDIPartyName": bytes.fromhex("3007a505a1030c0178"),
    "x400Address": bytes.fromhex("3002a300"),
    "an address of three bytes": bytes.fromhex("30058703010203"),
    "no DER": b"\xff",
}
UNKNOWN_AUTHORITY, OTHER_HOST = 20, 62
DEMANDING = ("-Verify", "1", "-verify_return_error")


def keys(client: IssuedCertificate) -> KeyStore:
    return KeyStore(
        type=StoreType.PEM,
        certificate_chain=Secret(client.chain_pem, "kafka.ssl.keystore.certificate.chain"),
        key=Secret(client.key_pem(), "kafka.ssl.keystore.key"),
    )


def failure_message(
    folder: Path,
    config: TlsConfig,
    server: IssuedCertificate = SERVER,
    options: tuple[str, ...] = (),
) -> str:
    """Return the final error of a connection to an openssl server."""
    with openssl_server(server.write(folder), *options) as port:
        error = connection_error(create_client_context(config), port, "localhost")
    failure = tls_failure(error, config, BROKER)
    assert isinstance(failure, TlsError)
    assert failure.broker == BROKER
    return str(failure)


@dataclass(frozen=True)
class CertificateCase:
    """A server certificate and the expected message."""

    certificate: IssuedCertificate
    words: str
    hint: str


SHOWN = {
    "unknown authority": CertificateCase(
        STRANGER.server("localhost"),
        r"signed by an authority that is not trusted, CN=Stranger",
        r"Add the authority's certificate to .* kafka\.ssl\.truststore\.certificates",
    ),
    "self-signed": CertificateCase(
        self_signed("localhost"), "self-signed and not in the truststore", "truststore"
    ),
    "expired": CertificateCase(
        AUTHORITY.server("localhost", validity=EXPIRED),
        r"has expired: its own certificate is valid until \d{4}-\d\d-\d\d \d\d:\d\d UTC",
        "Renew the certificate on the broker",
    ),
    "not yet valid": CertificateCase(
        AUTHORITY.server("localhost", validity=NOT_YET_VALID),
        r"is not yet valid: its own certificate is valid from \d{4}-\d\d-\d\d",
        "clocks",
    ),
    "another host": CertificateCase(
        AUTHORITY.server("kafka-1.example", "10.0.0.1"),
        r"is valid for kafka-1\.example, 10\.0\.0\.1, not for localhost",
        r"advertised\.listeners.*kafka\.ssl\.endpoint\.identification\.algorithm",
    ),
    "no host": CertificateCase(
        AUTHORITY.server(), "is valid for broker, not for localhost", "bootstrap"
    ),
    "many hosts": CertificateCase(
        AUTHORITY.server(*(f"kafka-{n}.example" for n in range(50))),
        r"kafka-9\.example and 40 more, not for localhost",
        "bootstrap",
    ),
    "a client's": CertificateCase(AUTHORITY.client("alice"), "invalid: .*purpose", "serverAuth"),
}


@pytest.mark.parametrize("protocols", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("name", SHOWN)
def test_rejected_certificate_is_described(
    tmp_path: Path, name: str, protocols: tuple[TlsVersion, ...]
) -> None:
    shown = SHOWN[name]
    message = failure_message(tmp_path, replace(CONFIG, protocols=protocols), shown.certificate)
    assert re.search(shown.words, message)
    assert re.search(shown.hint, message)


def test_unknown_authority_with_system_trust(tmp_path: Path) -> None:
    message = failure_message(tmp_path, TlsConfig())
    assert re.search(r"not trusted, CN=Test Authority", message)
    assert "Set kafka.ssl.truststore.location to a file with the authority's certificate" in message


def test_missing_intermediate_certificate(tmp_path: Path) -> None:
    issuing = CertificateAuthority("Issuing", parent=AUTHORITY)
    lonely = replace(issuing.server("localhost"), issuers=())
    message = failure_message(tmp_path, CONFIG, lonely)
    assert "not trusted, CN=Issuing" in message
    assert "A broker must send all intermediate certificates" in message


def test_issuer_that_is_not_an_authority(tmp_path: Path) -> None:
    pretender = CertificateAuthority("Pretender", parent=AUTHORITY, is_ca=False)
    message = failure_message(tmp_path, CONFIG, pretender.server("localhost"))
    assert re.search(r"invalid: invalid CA certificate.*CA:TRUE", message)


def test_short_keys_are_named(tmp_path: Path) -> None:
    short = AUTHORITY.server("localhost", kind=KeyKind.SHORT_RSA)
    message = failure_message(tmp_path, CONFIG, short, ("-cipher", "ALL:@SECLEVEL=0"))
    assert re.search(r"invalid: EE certificate key too weak.*2048 bits.*@SECLEVEL=1", message)


def test_short_diffie_hellman_parameters(tmp_path: Path) -> None:
    parameters = tmp_path / "dh.pem"
    group = ("-algorithm", "DH", "-pkeyopt", "group:modp_1536")
    openssl("genpkey", "-genparam", *group, "-out", str(parameters))
    weak = ("-tls1_2", "-cipher", "DHE:@SECLEVEL=0", "-dhparam", str(parameters))
    server = AUTHORITY.server("localhost", kind=KeyKind.RSA)
    message = failure_message(tmp_path, replace(CONFIG, protocols=TLS_1_2), server, weak)
    assert re.search(r"Diffie-Hellman parameters have fewer than 2048 bits.*@SECLEVEL=1", message)


def signed_by_sha_1(folder: Path) -> tuple[TlsConfig, Path]:
    """Create a certificate for localhost signed with SHA-1, and a configuration that trusts it."""
    authority, request = folder / "authority.pem", folder / "request.pem"
    key, names, server = folder / "key.pem", folder / "names", folder / "server.pem"
    names.write_text("subjectAltName=DNS:localhost\n")
    new = ("-newkey", "rsa:2048", "-nodes", "-keyout", str(key))
    own = ("-subj", "/CN=old", "-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", "-x509", *new, *own, "-out", str(authority))
    signing = folder / "signing.pem"
    key.rename(signing)
    openssl("req", "-new", *new, "-subj", "/CN=localhost", "-out", str(request))
    by = ("-CA", str(authority), "-CAkey", str(signing), "-extfile", str(names))
    openssl("x509", "-req", "-sha1", "-in", str(request), *by, "-out", str(server))
    server.write_text(key.read_text() + server.read_text())
    certificates = Secret(authority.read_text(), "kafka.ssl.truststore.certificates")
    return TlsConfig(truststore=TrustStore(type=StoreType.PEM, certificates=certificates)), server


def negotiated_version(config: TlsConfig, certificate: Path) -> str | None:
    """Return the TLS version negotiated with a permissive server."""
    with (
        openssl_server(certificate, "-cipher", "ALL:@SECLEVEL=0") as port,
        socket.create_connection(("127.0.0.1", port), 20) as plain,
        create_client_context(config).wrap_socket(plain, server_hostname="localhost") as client,
    ):
        return client.version()


def test_lowered_security_level_accepts_short_keys(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Java; TLS versions and suites are not changed."""
    warn_level.cache_clear()
    path = AUTHORITY.server("localhost", kind=KeyKind.SHORT_RSA).write(tmp_path)
    assert negotiated_version(replace(CONFIG, cipher_suites=("@SECLEVEL=1",)), path) == "TLSv1.3"
    assert "lowers OpenSSL's security level to 1" in caplog.text
    usual, lowered = (
        create_client_context(replace(CONFIG, cipher_suites=suites)).get_ciphers()
        for suites in ((), ("DEFAULT@SECLEVEL=1",))
    )
    assert [suite["name"] for suite in usual] == [suite["name"] for suite in lowered]


def test_lowered_security_level_accepts_sha_1(tmp_path: Path) -> None:
    config, path = signed_by_sha_1(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="digest algorithm"):
        negotiated_version(replace(config, cipher_suites=("@SECLEVEL=1",)), path)
    assert negotiated_version(replace(config, cipher_suites=("@SECLEVEL=0",)), path) == "TLSv1.3"


@pytest.mark.parametrize("level", ["6", "", "x", "1:ALL"])
def test_invalid_security_level(level: str) -> None:
    with pytest.raises(ConfigError, match="SECLEVEL"):
        create_client_context(replace(CONFIG, cipher_suites=(f"@SECLEVEL={level}",)))


@pytest.mark.parametrize("protocols", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize(
    ("client", "words"),
    [
        (STRANGER.client("eve"), r"unknown ca.*broker's truststore lacks the authority"),
        (AUTHORITY.client("alice", EXPIRED), r"certificate expired.*still valid"),
        (AUTHORITY.client("alice", NOT_YET_VALID), r"bad certificate.*kafka\.ssl\.keystore"),
        (SERVER, r"unsupported certificate.*clientAuth"),
    ],
)
def test_client_rejected_by_the_broker(
    tmp_path: Path, client: IssuedCertificate, words: str, protocols: tuple[TlsVersion, ...]
) -> None:
    """With TLS 1.3, the alert arrives after the client's handshake is complete."""
    config = replace(CONFIG, protocols=protocols, keystore=keys(client))
    options = (*DEMANDING, "-CAfile", str(AUTHORITY.write(tmp_path)))
    message = failure_message(tmp_path, config, SERVER, options)
    assert re.search(rf"rejected the client's certificate: {words}", message)


@pytest.mark.parametrize(
    ("protocols", "words"),
    [
        (TLS_1_2, r"rejected the TLS handshake.*or the broker requires a client certificate"),
        (TLS_1_3, r"requires a client certificate, but received none \(certificate required\)"),
    ],
)
def test_broker_requires_a_certificate(
    tmp_path: Path, protocols: tuple[TlsVersion, ...], words: str
) -> None:
    options = (*DEMANDING, "-CAfile", str(AUTHORITY.write(tmp_path)))
    message = failure_message(tmp_path, replace(CONFIG, protocols=protocols), SERVER, options)
    assert re.search(words, message)
    assert "kafka.ssl.keystore.location" in message


@pytest.mark.parametrize(
    ("protocols", "server"), [(TLS_1_2, "-tls1_3"), (TLS_1_3, "-tls1_2"), (TLS_1_3, "-tls1_1")]
)
def test_no_common_version(tmp_path: Path, protocols: tuple[TlsVersion, ...], server: str) -> None:
    config = replace(CONFIG, protocols=protocols)
    message = failure_message(tmp_path, config, SERVER, (server, "-cipher", "ALL:@SECLEVEL=0"))
    assert f"none of the client's TLS versions: {protocols[0].value}" in message
    assert "kafka.ssl.enabled.protocols" in message


def test_no_common_cipher(tmp_path: Path) -> None:
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",)
    config = replace(CONFIG, cipher_suites=suites, keystore=keys(AUTHORITY.client()))
    message = failure_message(
        tmp_path, config, SERVER, ("-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384")
    )
    assert re.search(r"handshake failure.*no version or cipher suite in common", message)
    assert "client's certificate" not in message


def test_unlisted_cipher_is_named(tmp_path: Path) -> None:
    config = replace(CONFIG, cipher_suites=("TLS_CHACHA20_POLY1305_SHA256",))
    message = failure_message(tmp_path, config)
    assert "TLS_AES_256_GCM_SHA384, which is not in kafka.ssl.cipher.suites" in message


@pytest.mark.parametrize(
    "reply", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x04\0\0\0\0", b"SSH-2.0-OpenSSH_9\r\n"]
)
def test_port_without_tls(reply: bytes) -> None:
    with plain_server(reply) as port:
        error = connection_error(create_client_context(CONFIG), port, "localhost")
    failure = tls_failure(error, CONFIG, BROKER)
    assert isinstance(failure, TlsError)
    assert re.search(r"port does not use TLS.*kafka\.security\.protocol", str(failure))


def test_alert_without_specific_message() -> None:
    with plain_server(b"\x15\x03\x03\x00\x02\x02\x50") as port:
        error = connection_error(create_client_context(CONFIG), port, "localhost")
    failure = tls_failure(error, CONFIG, BROKER)
    assert isinstance(failure, TlsError)
    assert "the TLS handshake failed: internal error" in str(failure)


@pytest.mark.parametrize(
    ("reset", "words"),
    [
        (False, "closed the TLS connection"),
        (True, r"connection was lost \(Connection reset by peer\)"),
    ],
)
def test_connection_reset_is_retriable(reset: bool, words: str) -> None:
    with plain_server(None, reset=reset) as port:
        error = connection_error(create_client_context(CONFIG), port, "localhost")
    failure = tls_failure(error, CONFIG, BROKER)
    assert isinstance(failure, BrokerUnavailableError)
    assert re.search(words, str(failure))
    assert "TLS listener, and whether the listener requires a client certificate" in str(failure)


def certificate_with_names(names: bytes) -> bytes:
    """Create a server certificate with this subjectAltName."""
    return PEER_AUTHORITY.server_with_names(names).der


def message_for(code: int, names: bytes) -> str:
    error = PeerCertificateError(1, "certificate verify failed")
    error.verify_code, error.certificate = code, certificate_with_names(names)
    return str(tls_failure(error, TlsConfig(), "kafka-1:9093"))


@pytest.mark.parametrize("names", ODD_NAMES.values(), ids=ODD_NAMES)
def test_unreadable_names_are_skipped(names: bytes) -> None:
    shown = parse_peer_certificate(certificate_with_names(names))
    assert shown is not None
    assert (shown.names, shown.issuer) == (None, "CN=Stranger")


@pytest.mark.parametrize("names", ODD_NAMES.values(), ids=ODD_NAMES)
def test_message_is_the_usual_one(names: bytes) -> None:
    unknown = message_for(UNKNOWN_AUTHORITY, names)
    assert "signed by an authority that is not trusted, CN=Stranger" in unknown
    other_host = message_for(OTHER_HOST, names)
    assert "the broker's certificate is not valid for kafka-1 " in other_host


def test_certificate_of_an_unknown_version_is_not_described() -> None:
    certificate = PEER_AUTHORITY.server("localhost").der
    version_3, version_10 = bytes.fromhex("a003020102"), bytes.fromhex("a003020109")
    assert certificate.count(version_3) == 1
    assert parse_peer_certificate(certificate.replace(version_3, version_10)) is None
    assert parse_peer_certificate(b"no certificate") is None
    assert parse_peer_certificate(None) is None
