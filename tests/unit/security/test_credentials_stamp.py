"""Equal settings with other secrets behind them are noticed, and the secrets not shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.model import (
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
from spark_kafka_sink.security.credentials_stamp import credentials_stamp

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def login(password: str) -> SecurityConfig:
    name = Secret("alice", "kafka.sasl.username")
    plain = PasswordLogin(username=name, password=Secret(password, "kafka.sasl.password"))
    return SecurityConfig(
        protocol=SecurityProtocol.SASL_PLAINTEXT,
        sasl=SaslConfig(mechanism=Mechanism.PLAIN, login=plain),
    )


def test_literal_secrets_are_compared_with_the_settings_themselves() -> None:
    assert credentials_stamp(login("one")) == ()
    assert login("one") != login("two")
    assert len({login("one"), login("two"), login("one")}) == 2


def test_a_variable_that_changes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAK_PW", "s3nt1nel")
    before = credentials_stamp(login("env:LEAK_PW"))
    assert credentials_stamp(login("env:LEAK_PW")) == before
    monkeypatch.setenv("LEAK_PW", "other")
    assert credentials_stamp(login("env:LEAK_PW")) != before
    monkeypatch.delenv("LEAK_PW")
    assert credentials_stamp(login("env:LEAK_PW")) == (None,)
    assert "s3nt1nel" not in repr(before)


def test_a_file_that_is_replaced_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "password"
    settings = login(f"file:{file}")
    assert credentials_stamp(settings) == (None,)
    file.write_text("one")
    before = credentials_stamp(settings)
    assert credentials_stamp(settings) == before
    other = tmp_path / "other"
    other.write_text("two")
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.replace(file)
    assert credentials_stamp(settings) != before


def test_stores_and_keytabs_are_watched_too(tmp_path: Path) -> None:
    file = tmp_path / "secrets"
    store = TlsConfig(keystore=KeyStore(type=StoreType.PKCS12, location=str(file)))
    kerberos = SaslConfig(
        mechanism=Mechanism.GSSAPI,
        login=KerberosLogin(service_name="kafka", keytab=str(file)),
    )
    settings = SecurityConfig(protocol=SecurityProtocol.SASL_SSL, tls=store, sasl=kerberos)
    assert credentials_stamp(settings) == (None, None)
    file.write_bytes(b"store")
    assert None not in credentials_stamp(settings)
