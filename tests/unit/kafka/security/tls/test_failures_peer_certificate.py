"""Descriptions of a server's certificate, even if it is malformed."""

import pytest

from spark_kafka_sink.config.security.security_config import TlsConfig
from spark_kafka_sink.kafka.security.tls.client_context import PeerCertificateError
from spark_kafka_sink.kafka.security.tls.failures import describe, tls_failure
from tools.support.certificates import CertificateAuthority

AUTHORITY = CertificateAuthority("Stranger")
ODD_NAMES = {
    "EDIPartyName": bytes.fromhex("3007a505a1030c0178"),
    "x400Address": bytes.fromhex("3002a300"),
    "an address of three bytes": bytes.fromhex("30058703010203"),
    "no DER": b"\xff",
}
UNKNOWN_AUTHORITY, OTHER_HOST = 20, 62


def certificate_with_names(names: bytes) -> bytes:
    """Create a server certificate with this subjectAltName."""
    return AUTHORITY.server_with_names(names).der


def failure_message(code: int, names: bytes) -> str:
    error = PeerCertificateError(1, "certificate verify failed")
    error.verify_code, error.certificate = code, certificate_with_names(names)
    return str(tls_failure(error, TlsConfig(), "kafka-1:9093"))


@pytest.mark.parametrize("names", ODD_NAMES.values(), ids=ODD_NAMES)
def test_unreadable_names_are_skipped(names: bytes) -> None:
    shown = describe(certificate_with_names(names))
    assert shown is not None
    assert (shown.names, shown.issuer) == (None, "CN=Stranger")


@pytest.mark.parametrize("names", ODD_NAMES.values(), ids=ODD_NAMES)
def test_message_is_the_usual_one(names: bytes) -> None:
    unknown = failure_message(UNKNOWN_AUTHORITY, names)
    assert "signed by an authority that is not trusted, CN=Stranger" in unknown
    other_host = failure_message(OTHER_HOST, names)
    assert "the broker's certificate is not valid for kafka-1 " in other_host


def test_invalid_version() -> None:
    certificate = AUTHORITY.server("localhost").der
    version_3, version_10 = bytes.fromhex("a003020102"), bytes.fromhex("a003020109")
    assert certificate.count(version_3) == 1
    assert describe(certificate.replace(version_3, version_10)) is None
    assert describe(b"no certificate") is None
    assert describe(None) is None
