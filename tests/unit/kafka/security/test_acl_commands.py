"""The principal that ACLs must name."""

import pytest

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    ClientCredentialsLogin,
    KerberosLogin,
    KeyStore,
    Login,
    Mechanism,
    MskIamLogin,
    PasswordLogin,
    SaslConfig,
    SecurityConfig,
    SecurityProtocol,
    StoreType,
    TlsConfig,
    TokenLogin,
)
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.security.acl_commands import principal_of
from spark_kafka_sink.kafka.security.credentials_fingerprint import credentials_fingerprint


def secret(source: str) -> Secret:
    return Secret(source, "kafka.some.option")


def sasl(login: Login) -> SecurityConfig:
    return SecurityConfig(
        protocol=SecurityProtocol.SASL_SSL,
        tls=TlsConfig(keystore=KeyStore(type=StoreType.PEM)),
        sasl=SaslConfig(mechanism=Mechanism.PLAIN, login=login),
    )


@pytest.mark.parametrize(
    ("login", "name"),
    [
        (PasswordLogin(username=secret("alice"), password=secret("pw")), "User:alice"),
        (
            PasswordLogin(username=secret("env:NAME"), password=secret("pw")),
            "User:<the name of the login>",
        ),
        (
            PasswordLogin(username=secret("id"), password=secret("hmac"), token_auth=True),
            "User:<the owner of the delegation token>",
        ),
        (KerberosLogin(service_name="kafka", principal="alice/host@REALM"), "User:alice"),
        (KerberosLogin(service_name="kafka"), "User:<the owner of the Kerberos ticket>"),
        (TokenLogin(token=secret("token")), "User:<the subject of the token>"),
        (MskIamLogin(), "User:<the subject of the token>"),
        (
            ClientCredentialsLogin(
                token_endpoint_url="https://issuer",
                client_id=secret("id"),
                client_secret=secret("pw"),
            ),
            "User:<the subject of the token>",
        ),
    ],
)
def test_principal_of_a_login(login: Login, name: str) -> None:
    assert principal_of(sasl(login)) == name


def test_name_in_a_referenced_jaas_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    options = {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "env:LEAK_JAAS",
    }
    security = ProducerConfig.parse(options).security
    assert principal_of(security) == "User:<the name of the login>"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    monkeypatch.setenv("LEAK_JAAS", f'{module} username="alice" password="pw";')
    assert principal_of(security) == "User:alice"
    assert credentials_fingerprint(security) != (None,)


@pytest.mark.parametrize("protocol", [SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL])
def test_client_without_identity_is_anonymous(protocol: SecurityProtocol) -> None:
    tls = TlsConfig() if protocol.uses_tls else None
    assert principal_of(SecurityConfig(protocol=protocol, tls=tls)) == "User:ANONYMOUS"


def test_client_with_certificate_is_its_subject() -> None:
    tls = TlsConfig(keystore=KeyStore(type=StoreType.PEM))
    security = SecurityConfig(protocol=SecurityProtocol.SSL, tls=tls)
    assert principal_of(security) == "User:<the subject of the client's certificate>"
