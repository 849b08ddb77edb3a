"""Credentials: changes are detected, shipped files are found, invalid ones are rejected."""

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import ConfigError
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
    TlsVersion,
    TokenLogin,
    TrustStore,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.security.credentials import (
    credentials_fingerprint,
    locate_files,
    resolve_login,
    reveal_text,
    utf8_text,
)
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for

OPTION = "kafka.sasl.password"
JAAS = {
    "keytab": (
        Mechanism.GSSAPI,
        (
            "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true "
            'keyTab="alice.keytab" principal="alice@TEST" serviceName="kafka";'
        ),
    ),
    "token": (
        Mechanism.OAUTHBEARER,
        (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
            'oauth.access.token.location="token";'
        ),
    ),
    "password": (
        Mechanism.PLAIN,
        (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="alice" password="file:password";'
        ),
    ),
}


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


def settings(place: str, sasl: SaslConfig | None = None) -> SecurityConfig:
    return SecurityConfig(
        protocol=SecurityProtocol.SASL_SSL,
        tls=TlsConfig(
            truststore=TrustStore(type=StoreType.JKS, location=f"{place}trust.jks"),
            keystore=KeyStore(
                type=StoreType.JKS,
                location="/etc/client.jks",
                password=Secret(f"file:{place}password", "kafka.ssl.keystore.password"),
                key_password=Secret("as it is", "kafka.ssl.key.password"),
            ),
            protocols=(TlsVersion.TLS_1_3,),
        ),
        sasl=sasl,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shipped = tmp_path / "shipped"
    shipped.mkdir()
    for name in ("trust.jks", "password", "token", "alice.keytab"):
        (shipped / name).write_text(name)
    return shipped


def test_shipped_files_are_found_by_name(folder: Path) -> None:
    assert locate_files(settings(""), [folder]) == settings(f"{folder}/")


def test_first_folder_with_the_file_wins(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "trust.jks").touch()
    config = locate_files(settings(""), [tmp_path, folder])
    assert config.tls is not None
    assert config.tls.truststore is not None
    assert config.tls.truststore.location == str(tmp_path / "trust.jks")


def test_working_directory_comes_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trust.jks").touch()
    (tmp_path / "password").touch()
    monkeypatch.chdir(tmp_path)
    assert locate_files(settings(""), [folder]) == settings("")


def test_missing_file_keeps_its_name(tmp_path: Path) -> None:
    assert locate_files(settings(""), [tmp_path]) == settings("")
    assert locate_files(settings(""), []) == settings("")


@pytest.mark.parametrize("kind", ["token", "keytab"])
def test_files_of_logins_are_resolved(folder: Path, kind: str) -> None:
    def sasl(place: str) -> SaslConfig:
        if kind == "token":
            token = Secret(f"file:{place}token", "kafka.sasl.jaas.config")
            return SaslConfig(mechanism=Mechanism.OAUTHBEARER, login=TokenLogin(token=token))
        login = KerberosLogin(service_name="kafka", keytab=f"{place}alice.keytab")
        return SaslConfig(mechanism=Mechanism.GSSAPI, login=login)

    assert locate_files(settings("", sasl("")), [folder]) == settings(
        f"{folder}/", sasl(f"{folder}/")
    )


@pytest.mark.parametrize("kind", JAAS)
def test_files_named_by_a_shipped_login(folder: Path, kind: str) -> None:
    """The text is read at login; its file names are resolved in the same folders."""
    mechanism, text = JAAS[kind]
    (folder / "jaas").write_text(text)
    login = JaasLogin(jaas=Secret("file:jaas", "kafka.sasl.jaas.config"), settings=())
    config = settings("", SaslConfig(mechanism=mechanism, login=login))
    sasl = locate_files(config, [folder]).sasl
    assert sasl is not None
    resolved = resolve_login(sasl)
    match resolved:
        case KerberosLogin():
            assert resolved.keytab == str(folder / "alice.keytab")
        case TokenLogin():
            assert resolved.token.reveal() == "token"
        case PasswordLogin():
            assert resolved.password.reveal() == "password"
        case _:
            raise AssertionError(resolved)
    before = credentials_fingerprint(replace(config, tls=None, sasl=sasl))
    for name in ("token", "password", "alice.keytab"):
        (folder / name).write_text("renewed")
    assert credentials_fingerprint(replace(config, tls=None, sasl=sasl)) != before


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\n\r\n"])
def test_file_that_ends_with_several_line_breaks(tmp_path: Path, end: bytes) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"hunter2" + end)
    for read in (reveal_text, utf8_text):
        with pytest.raises(ConfigError, match="more than one line break") as caught:
            read(Secret(f"file:{file}", OPTION))
        assert all(part in str(caught.value) for part in (OPTION, str(file), socket.gethostname()))
        assert "hunter2" not in str(caught.value)
    file.write_bytes(b"hunter2" + end[: len(end) // 2])
    assert reveal_text(Secret(f"file:{file}", OPTION)) == "hunter2"


def test_variable_that_ends_with_a_line_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a Kubernetes secret created with `echo secret | base64`."""
    monkeypatch.setenv("THE_PASSWORD", "hunter2\n")
    with pytest.raises(ConfigError, match="line break") as caught:
        reveal_text(Secret("env:THE_PASSWORD", OPTION))
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("by_jaas", [False, True])
def test_name_and_password_that_look_like_references(*, by_jaas: bool) -> None:
    name, password = "literal:env:alice", "literal:file:hunter2"
    options = {"kafka.sasl.username": name, "kafka.sasl.password": password}
    if by_jaas:
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'{module} required username="{name}" password="{password}";'
        options = {"kafka.sasl.jaas.config": login}
    common = {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
    }
    sasl = ProducerConfig.parse(common | options).security.sasl
    assert sasl is not None
    assert exchange_for(sasl, "broker").initial_response() == b"\0env:alice\0file:hunter2"
