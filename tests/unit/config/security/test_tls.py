"""ssl.* options as users set them."""

import logging
from typing import Any

import pytest

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    KeyStore,
    SecurityProtocol,
    StoreType,
    TlsConfig,
    TlsVersion,
    TrustStore,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from tests.unit.config.parsing import config_error

MINIMAL = {"kafka.bootstrap.servers": "broker:9092", "kafka.security.protocol": "SSL"}
JKS, PKCS12, PEM = StoreType.JKS, StoreType.PKCS12, StoreType.PEM
PKCS12_STORE = "ssl.keystore.location=/me ssl.keystore.type=PKCS12"
CERT = "-----BEGIN CERTIFICATE-----\nsentinel\n-----END CERTIFICATE-----"
KEY = "-----BEGIN PRIVATE KEY-----\nsentinel\n-----END PRIVATE KEY-----"
BOTH_PEM = "ssl.keystore.key=KEY ssl.keystore.certificate.chain=CERT"
NO_PASSWORD = "is set, but PEM files have no such password"


def parse(options: str = "", **named: str) -> TlsConfig:
    """Parse `name=value` pairs separated by spaces; CERT and KEY stand for texts."""
    pairs = dict(option.split("=", 1) for option in options.split()) | named
    texts = {"CERT": CERT, "KEY": KEY}
    settings = {f"kafka.{name}": texts.get(value, value) for name, value in pairs.items()}
    security = ProducerConfig.parse(MINIMAL | settings).security
    assert security.protocol is SecurityProtocol.SSL
    assert security.sasl is None
    assert security.tls is not None
    return security.tls


def failure(options: str) -> str:
    return config_error(parse, options)


def secret(value: str, name: str) -> Secret:
    return Secret(value, f"kafka.{name}")


def test_defaults_trust_system_authorities_and_verify_the_host() -> None:
    assert parse() == TlsConfig()
    assert parse().check_hostname
    assert parse().protocols == (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3)


def truststore(kind: StoreType, **fields: Any) -> TrustStore:
    return TrustStore(type=kind, **fields)


def keystore(kind: StoreType, **fields: Any) -> KeyStore:
    return KeyStore(type=kind, **fields)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("ssl.truststore.location=/ca.jks", truststore(JKS, location="/ca.jks")),
        ("ssl.truststore.location=file:/ca.jks", truststore(JKS, location="/ca.jks")),
        ("ssl.truststore.location=FILE:///ca.jks", truststore(JKS, location="/ca.jks")),
        ("ssl.truststore.location=file:ca.jks", truststore(JKS, location="ca.jks")),
        ("ssl.truststore.location=C:/ca.jks", truststore(JKS, location="C:/ca.jks")),
        (
            "ssl.truststore.location=/ca.pem ssl.truststore.type=pem",
            truststore(PEM, location="/ca.pem"),
        ),
        (
            "ssl.truststore.location=/ca ssl.truststore.type=PKCS12 ssl.truststore.password=p",
            truststore(PKCS12, location="/ca", password=secret("p", "ssl.truststore.password")),
        ),
        (
            "ssl.truststore.certificates=CERT",
            truststore(PEM, certificates=secret(CERT, "ssl.truststore.certificates")),
        ),
        (
            "ssl.truststore.certificates=CERT ssl.truststore.type=PEM",
            truststore(PEM, certificates=secret(CERT, "ssl.truststore.certificates")),
        ),
        (
            "ssl.ca.location=/ca.pem",
            truststore(PEM, certificates=secret("file:/ca.pem", "ssl.ca.location")),
        ),
        ("ssl.ca.location=probe", None),
        (
            "ssl.ca.pem=file:/ca.pem",
            truststore(PEM, certificates=secret("file:/ca.pem", "ssl.ca.pem")),
        ),
        ("ssl.truststore.type=PEM", None),
        ("ssl.truststore.location=", None),
    ],
)
def test_truststore_options_are_parsed(options: str, expected: TrustStore | None) -> None:
    assert parse(options).truststore == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            "ssl.keystore.location=/me.jks ssl.keystore.password=sentinel",
            keystore(JKS, location="/me.jks", password=secret("sentinel", "ssl.keystore.password")),
        ),
        (
            f"{PKCS12_STORE} ssl.keystore.password=env:A ssl.key.password=env:B",
            keystore(
                PKCS12,
                location="/me",
                password=secret("env:A", "ssl.keystore.password"),
                key_password=secret("env:B", "ssl.key.password"),
            ),
        ),
        (
            "ssl.keystore.location=/me.pem ssl.keystore.type=PEM",
            keystore(PEM, location="/me.pem"),
        ),
        (
            "ssl.keystore.certificate.chain=CERT ssl.keystore.key=KEY ssl.key.password=sentinel",
            keystore(
                PEM,
                certificate_chain=secret(CERT, "ssl.keystore.certificate.chain"),
                key=secret(KEY, "ssl.keystore.key"),
                key_password=secret("sentinel", "ssl.key.password"),
            ),
        ),
        (
            "ssl.certificate.location=/me.crt ssl.key.location=/me.key",
            keystore(
                PEM,
                certificate_chain=secret("file:/me.crt", "ssl.certificate.location"),
                key=secret("file:/me.key", "ssl.key.location"),
            ),
        ),
        (
            "ssl.certificate.pem=CERT ssl.key.pem=KEY",
            keystore(
                PEM,
                certificate_chain=secret(CERT, "ssl.certificate.pem"),
                key=secret(KEY, "ssl.key.pem"),
            ),
        ),
        ("ssl.keystore.type=PKCS12 ssl.key.password=sentinel", None),
    ],
)
def test_keystore_options_are_parsed(options: str, expected: KeyStore | None) -> None:
    assert parse(options).keystore == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            "ssl.truststore.certificates=CERT ssl.truststore.location=/ca.jks",
            "ssl.truststore.location and kafka.ssl.truststore.certificates are mutually exclusive",
        ),
        (
            "ssl.truststore.certificates=CERT ssl.truststore.type=JKS",
            "certificates contains PEM text, but kafka.ssl.truststore.type is JKS",
        ),
        (
            "ssl.truststore.certificates=CERT ssl.truststore.password=sentinel",
            f"kafka.ssl.truststore.password {NO_PASSWORD}",
        ),
        (
            "ssl.truststore.location=/ca ssl.truststore.type=PEM ssl.truststore.password=sentinel",
            f"kafka.ssl.truststore.password {NO_PASSWORD}",
        ),
        (
            "ssl.truststore.password=sentinel",
            "kafka.ssl.truststore.password is set without kafka.ssl.truststore.location",
        ),
        ("ssl.truststore.type=BCFKS", "ssl.truststore.type is 'BCFKS'; allowed: JKS, PKCS12, PEM"),
        (
            "ssl.ca.location=/a ssl.ca.pem=CERT",
            "kafka.ssl.ca.pem and kafka.ssl.ca.location are mutually exclusive",
        ),
        (
            "ssl.ca.pem=CERT ssl.truststore.certificates=KEY",
            "kafka.ssl.ca.pem and kafka.ssl.truststore.certificates are synonyms",
        ),
        *(
            (f"{name}={value}", f"kafka.{name} is set without kafka.{other}")
            for name, value, other in (
                ("ssl.keystore.certificate.chain", "CERT", "ssl.keystore.key"),
                ("ssl.keystore.key", "KEY", "ssl.keystore.certificate.chain"),
                ("ssl.certificate.location", "/c", "ssl.key.location"),
                ("ssl.key.location", "/k", "ssl.certificate.location"),
                ("ssl.keystore.password", "sentinel", "ssl.keystore.location"),
            )
        ),
        (
            "ssl.key.location=/k ssl.key.pem=KEY",
            "kafka.ssl.key.pem and kafka.ssl.key.location are mutually exclusive",
        ),
        (
            f"{BOTH_PEM} ssl.keystore.location=/me.pem",
            "kafka.ssl.keystore.location and kafka.ssl.keystore.key are mutually exclusive",
        ),
        (
            f"{BOTH_PEM} ssl.keystore.type=JKS",
            "kafka.ssl.keystore.key contains PEM text, but kafka.ssl.keystore.type is JKS",
        ),
        (
            f"{BOTH_PEM} ssl.keystore.password=sentinel",
            "Remove it. For an encrypted key use kafka.ssl.key.password",
        ),
        (
            "ssl.keystore.location=/me ssl.keystore.type=PEM ssl.keystore.password=sentinel",
            f"kafka.ssl.keystore.password {NO_PASSWORD}",
        ),
        (
            "ssl.keystore.location=/me.jks",
            "location refers to a JKS file, which requires kafka.ssl.keystore.password",
        ),
        (
            "enable.ssl.certificate.verification=false",
            "kafka.enable.ssl.certificate.verification is false, which would let any server",
        ),
        *(
            (f"{name}=dbfs:/stores/a", f"kafka.{name} refers to a file on dbfs:, which OpenSSL")
            for name in ("ssl.truststore.location", "ssl.keystore.location", "ssl.ca.location")
        ),
        ("ssl.endpoint.identification.algorithm=ldaps", "is 'ldaps'; allowed: https, none"),
        (
            "ssl.enabled.protocols=TLSv1.4",
            "kafka.ssl.enabled.protocols contains 'TLSv1.4'; allowed: TLSv1.2, TLSv1.3",
        ),
        (
            "ssl.enabled.protocols=TLSv1.1,TLSv1",
            "kafka.ssl.enabled.protocols contains no secure TLS version: TLSv1.1, TLSv1",
        ),
    ],
)
def test_conflicting_or_missing_options(options: str, expected: str) -> None:
    assert expected in failure(options)


@pytest.mark.parametrize(
    ("value", "checked"),
    [("https", True), ("HTTPS", True), ("", False), (" ", False), ("none", False)],
)
def test_host_name_is_verified_unless_disabled(value: str, checked: bool) -> None:
    assert parse(**{"ssl.endpoint.identification.algorithm": value}).check_hostname is checked


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("TLSv1.3", (TlsVersion.TLS_1_3,)),
        ("TLSv1.3, TLSv1.2", (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3)),
        ("TLSv1.1,TLSv1.2", (TlsVersion.TLS_1_2,)),
        ("", (TlsVersion.TLS_1_2, TlsVersion.TLS_1_3)),
    ],
)
def test_versions_are_parsed(value: str, expected: tuple[TlsVersion, ...]) -> None:
    assert parse(**{"ssl.enabled.protocols": value}).protocols == expected


def test_old_version_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        parse("ssl.enabled.protocols=TLSv1.1,TLSv1.2")
    assert [record.getMessage() for record in caplog.records] == [
        "Option kafka.ssl.enabled.protocols: TLSv1.1 is insecure and not offered"
    ]


@pytest.mark.parametrize("value", ["A_B,C_D", "A_B:C_D", " A_B , C_D "])
def test_cipher_suites_are_separated_by_commas_or_colons(value: str) -> None:
    assert parse(**{"ssl.cipher.suites": value}).cipher_suites == ("A_B", "C_D")


def test_redundant_verification_option_logs_nothing() -> None:
    assert parse("enable.ssl.certificate.verification=true") == TlsConfig()
