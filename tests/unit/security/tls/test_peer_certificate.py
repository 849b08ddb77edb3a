"""Descriptions of a server's certificate, even if it is malformed."""

from __future__ import annotations

import ssl

import pytest

from spark_kafka_sink.config.security.model import TlsConfig
from spark_kafka_sink.security.tls.verification import describe, verification_failure
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


def error(code: int) -> ssl.SSLCertVerificationError:
    found = ssl.SSLCertVerificationError(1, "certificate verify failed")
    found.verify_code, found.verify_message = code, "no"
    return found


@pytest.mark.parametrize("names", ODD_NAMES.values(), ids=ODD_NAMES)
def test_unreadable_names_are_skipped(names: bytes) -> None:
    shown = describe(certificate_with_names(names))
    assert shown is not None
    assert (shown.names, shown.issuer) == (None, "CN=Stranger")


@pytest.mark.parametrize("names", ODD_NAMES.values(), ids=ODD_NAMES)
def test_message_is_the_usual_one(names: bytes) -> None:
    config, broker = TlsConfig(), "kafka-1:9093"
    said = str(
        verification_failure(
            error(UNKNOWN_AUTHORITY), certificate_with_names(names), config, broker
        )
    )
    assert "signed by an authority that is not trusted, CN=Stranger" in said
    said = str(
        verification_failure(error(OTHER_HOST), certificate_with_names(names), config, broker)
    )
    assert "the broker's certificate is not valid for kafka-1 " in said


def test_invalid_version() -> None:
    certificate = AUTHORITY.server("localhost").der
    version_3, version_10 = bytes.fromhex("a003020102"), bytes.fromhex("a003020109")
    assert certificate.count(version_3) == 1
    assert describe(certificate.replace(version_3, version_10)) is None
    assert describe(b"no certificate") is None
    assert describe(None) is None
