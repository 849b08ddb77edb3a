"""Files that Spark ships are found by their names, also those of a login in a file."""

from dataclasses import replace
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
    TlsVersion,
    TokenLogin,
    TrustStore,
)
from spark_kafka_sink.kafka.security.credentials import resolve_login
from spark_kafka_sink.kafka.security.credentials_fingerprint import credentials_fingerprint
from spark_kafka_sink.kafka.security.shipped_files import locate_files

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
