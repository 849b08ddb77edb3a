"""The options of a table that Spark stores contain no secret."""

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option import OptionType
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from spark_kafka_sink.spark.write_plan import table_schema, write_options

SECURED = {
    "kafka.bootstrap.servers": "broker:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
    "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
}


@pytest.mark.parametrize(
    "name",
    [
        "kafka.sasl.password",
        "kafka.SASL.jaas.config",
        "kafka.ssl.key.pem",
        "kafka.sasl.oauthbearer.client.secret",
    ],
)
def test_secret_in_table_options_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name.lower()} is a secret") as caught:
        table_schema(SECURED | {name: "sentinel"})
    assert "sentinel" not in str(caught.value)
    assert "INSERT INTO t WITH" in str(caught.value)


@pytest.mark.parametrize("reference", ["env:KAFKA_PASSWORD", "file:/run/secrets/kafka"])
def test_reference_is_kept(reference: str) -> None:
    options = SECURED | {"kafka.sasl.password": reference}
    assert write_options(table_schema(options), {}) == options


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"


@pytest.mark.parametrize(
    "login",
    [
        f'{SCRAM} username="alice" password="file:/run/secrets/kafka";',
        f"{SCRAM} username=alice password='env:PASSWORD' tokenauth=true;",
        f'{KERBEROS} useKeyTab=true keyTab="/etc/alice.keytab" principal="alice";',
        f'{SCRAM} username=a password="env:P" ssl.truststore.location="/etc/ca.jks";',
    ],
)
def test_login_with_references_only_is_kept(login: str) -> None:
    options = SECURED | {"kafka.sasl.jaas.config": login}
    assert write_options(table_schema(options), {}) == options


@pytest.mark.parametrize(
    "login",
    [
        f'{SCRAM} username="alice" password="sentinel";',
        f'{SCRAM} username="alice" passwrod="sentinel";',
        f'{SCRAM} username="alice" password="env:P" ssl.truststore.password="sentinel";',
        f'{SCRAM} username="alice" password="env:P" "sentinel;',
    ],
)
def test_login_with_a_secret_is_rejected(login: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table_schema(SECURED | {"kafka.sasl.jaas.config": login})
    assert "sentinel" not in str(caught.value)


SECRETS = {option.name for option in SECURITY_OPTIONS if option.kind is OptionType.PASSWORD}
PUBLIC = {
    "sasl.username",
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "https.ca.pem",
}
"""Texts that are long or personal, and may be seen."""


@pytest.mark.parametrize("name", sorted(SECRETS - PUBLIC))
def test_every_secret_option_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match="is a secret"):
        table_schema({f"kafka.{name}": "sentinel"})
