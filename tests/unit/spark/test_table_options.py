"""Secrets in the options of tables are rejected, and references to secrets are stored."""

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option_definition import OptionType
from spark_kafka_sink.config.security.security_options import SECURITY_OPTIONS
from spark_kafka_sink.spark.table_options import merge_default_options, table_schema

SECURED = {
    "kafka.bootstrap.servers": "broker:9092",
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
    "kafka.ssl.truststore.certificates": "-----BEGIN CERTIFICATE-----",
}

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule required"
SECRETS = {option.name for option in SECURITY_OPTIONS if option.kind is OptionType.PASSWORD}
PUBLIC = {
    "sasl.username",
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "https.ca.pem",
}
"""Texts that are long or personal, and may be seen."""


@pytest.mark.parametrize("name", [*sorted(SECRETS - PUBLIC), "SASL.jaas.config"])
def test_secret_in_table_options_is_rejected(name: str) -> None:
    with pytest.raises(ConfigError, match=f"kafka.{name.lower()} is a secret") as caught:
        table_schema(SECURED | {f"kafka.{name}": "sentinel"})
    assert "sentinel" not in str(caught.value)
    assert "INSERT INTO t WITH" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", "env:KAFKA_PASSWORD"),
        ("password", "file:/run/secrets/kafka"),
        ("jaas.config", f'{SCRAM} username="alice" password="file:/run/secrets/kafka";'),
        ("jaas.config", f"{SCRAM} username=alice password='env:PASSWORD' tokenauth=true;"),
        ("jaas.config", f'{KERBEROS} useKeyTab=true keyTab="/etc/a.keytab" principal="alice";'),
        ("jaas.config", f'{SCRAM} username=a password="env:P" ssl.truststore.location="/ca.jks";'),
    ],
)
def test_references_are_kept(name: str, value: str) -> None:
    options = SECURED | {f"kafka.sasl.{name}": value}
    assert merge_default_options(table_schema(options), {}) == options


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
