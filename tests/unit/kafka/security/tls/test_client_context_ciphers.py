"""Names of cipher suites, compared with openssl's."""

import subprocess

import pytest

from spark_kafka_sink.kafka.security.tls.client_context import (
    TLS_1_3_SUITES,
    cipher_suites,
    openssl_name,
)


def openssl_suites() -> dict[str, str]:
    """Return IANA and openssl names of all suites that use certificates."""
    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "-v", "aRSA:aECDSA:!PSK:!kSRP:!ARIA"],
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split() for line in listed.stdout.splitlines()]
    return {row[0]: row[2] for row in rows}


def test_every_suite_with_certificates_has_openssls_name() -> None:
    known = openssl_suites()
    assert len(known) > 20
    assert {name: openssl_name(name) for name in known} == known


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_old_java_names_and_openssl_names(name: str, expected: str) -> None:
    assert openssl_name(name) == expected


def test_suites_are_sorted_by_version() -> None:
    suites = cipher_suites(["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_AES_128_GCM_SHA256"])
    assert suites.tls_1_2 == ("AES128-SHA",)
    assert suites.tls_1_3 == {"TLS_AES_128_GCM_SHA256"} < TLS_1_3_SUITES
