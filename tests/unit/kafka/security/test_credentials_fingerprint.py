"""Replaced secrets, files and tickets are detected."""

import os
from pathlib import Path

import pytest

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    JaasLogin,
    KerberosLogin,
    KeyStore,
    Mechanism,
    PasswordLogin,
    SaslConfig,
    SecurityConfig,
    SecurityProtocol,
    StoreType,
    TlsConfig,
)
from spark_kafka_sink.kafka.security.credentials_fingerprint import credentials_fingerprint


def login(password: str) -> SecurityConfig:
    name = Secret("alice", "kafka.sasl.username")
    plain = PasswordLogin(username=name, password=Secret(password, "kafka.sasl.password"))
    return SecurityConfig(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl=SaslConfig(mechanism=Mechanism.PLAIN, login=plain),
    )


def test_literal_secrets_are_compared_by_the_settings() -> None:
    assert credentials_fingerprint(login("one")) == ()
    assert login("one") != login("two")
    assert len({login("one"), login("two"), login("one")}) == 2


def test_changed_variable_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK_PW", "s3nt1nel")
    before = credentials_fingerprint(login("env:LEAK_PW"))
    assert credentials_fingerprint(login("env:LEAK_PW")) == before
    monkeypatch.setenv("LEAK_PW", "other")
    assert credentials_fingerprint(login("env:LEAK_PW")) != before
    monkeypatch.delenv("LEAK_PW")
    assert credentials_fingerprint(login("env:LEAK_PW")) == (None,)
    assert "s3nt1nel" not in repr(before)


def test_replaced_file_is_detected(tmp_path: Path) -> None:
    file = tmp_path / "password"
    settings = login(f"file:{file}")
    assert credentials_fingerprint(settings) == (None,)
    file.write_text("one")
    before = credentials_fingerprint(settings)
    assert credentials_fingerprint(settings) == before
    other = tmp_path / "other"
    other.write_text("two")
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.replace(file)
    assert credentials_fingerprint(settings) != before


def test_stores_and_keytabs_are_watched(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    store = TlsConfig(keystore=KeyStore(type=StoreType.PKCS12, location=str(file)))
    kerberos = SaslConfig(
        mechanism=Mechanism.GSSAPI, login=KerberosLogin(service_name="kafka", keytab=str(file))
    )
    settings = SecurityConfig(protocol=SecurityProtocol.SASL_SSL, tls=store, sasl=kerberos)
    assert credentials_fingerprint(settings) == (None, None)
    file.write_bytes(b"store")
    assert None not in credentials_fingerprint(settings)


def test_variable_that_is_not_utf_8_has_a_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK_PW", "hunter2\udcff")
    before = credentials_fingerprint(login("env:LEAK_PW"))
    monkeypatch.setenv("LEAK_PW", "hunter2\udcfe")
    assert credentials_fingerprint(login("env:LEAK_PW")) != before


def test_references_in_a_jaas_file_are_followed(tmp_path: Path) -> None:
    password, jaas = tmp_path / "password", tmp_path / "jaas"
    password.write_text("one")
    jaas.write_text(
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="alice" password="file:{password}";'
    )
    deferred = JaasLogin(jaas=Secret(f"file:{jaas}", "kafka.sasl.jaas.config"), settings=())
    settings = SaslConfig(mechanism=Mechanism.PLAIN, login=deferred)
    config = SecurityConfig(protocol=SecurityProtocol.SASL_PLAINTEXT, sasl=settings)
    before = credentials_fingerprint(config)
    assert credentials_fingerprint(config) == before
    password.write_text("another")
    assert credentials_fingerprint(config) != before
    jaas.write_text("no login module")
    assert None in credentials_fingerprint(config)


def test_new_ticket_is_detected_and_additional_service_tickets_are_ignored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, system = tmp_path / "cache", KerberosLogin(service_name="kafka")
    named = KerberosLogin(service_name="kafka", ticket_cache=str(file))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{file}")
    for config in (named, system):
        file.write_bytes(b"alice".ljust(1_000))
        before = credentials_fingerprint(config)
        with file.open("ab") as cache:
            cache.write(b"a ticket for kafka/broker")
        assert credentials_fingerprint(config) == before
        file.write_bytes(b"bob".ljust(1_000))
        assert credentials_fingerprint(config) != before


def test_new_system_ticket_cache_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    system = KerberosLogin(service_name="kafka")
    monkeypatch.setenv("KRB5CCNAME", "KEYRING:session:alice")
    before = credentials_fingerprint(system)
    monkeypatch.setenv("KRB5CCNAME", "KEYRING:session:bob")
    assert credentials_fingerprint(system) != before
    monkeypatch.delenv("KRB5CCNAME")
    assert credentials_fingerprint(system) != before
