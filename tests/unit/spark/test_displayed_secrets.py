"""Secrets in the options of writes: shown by Spark, in messages, or sent to the tasks."""

import pickle

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_kafka_sink import KafkaProdDataSource
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.spark import write_plan
from spark_kafka_sink.spark.displayed_secrets import (
    _warn_of_secret,
    displayed_secrets,
    warn_of_displayed_secrets,
)

SENTINEL = "s3nt1nel"
KEY = f"-----BEGIN PRIVATE KEY-----\n{SENTINEL}\n-----END PRIVATE KEY-----"
MINIMAL = {"kafka.bootstrap.servers": "broker:9092", "topic": "t"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("option", "value", "shown"),
    [
        ("kafka.ssl.keystore.key", KEY, True),
        ("kafka.ssl.keystore.key", f"# secret\n{KEY}", False),
        ("kafka.ssl.keystore.key", "file:/run/key.pem", False),
        ("kafka.ssl.key.pem", KEY, True),
        ("kafka.ssl.keystore.certificate.chain", KEY.replace("PRIVATE KEY", "CERTIFICATE"), False),
        ("kafka.sasl.password", SENTINEL, False),
        ("kafka.sasl.username", SENTINEL, False),
        ("kafka.sasl.oauthbearer.client.credentials.client.id", SENTINEL, False),
        ("kafka.sasl.oauthbearer.client.credentials.client.secret", SENTINEL, False),
        ("kafka.sasl.jaas.config", f'{PLAIN} username="a" password="{SENTINEL}";', False),
    ],
)
def test_secrets_that_spark_does_not_redact(option: str, value: str, shown: bool) -> None:
    assert displayed_secrets(MINIMAL | {option: value}) == ([option] if shown else [])


def test_warning_names_the_option_once_and_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    name = "kafka.ssl.key.pem"  # used by no other test of this process
    for _ in range(2):
        warn_of_displayed_secrets(MINIMAL | {name: KEY})
    (record,) = caplog.records
    assert name in record.getMessage()
    assert "file:PATH or env:NAME" in record.getMessage()
    assert SENTINEL not in caplog.text


def test_write_does_not_warn_because_its_options_are_in_no_plan(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _warn_of_secret.cache_clear()
    options = MINIMAL | {"preflight": "off", "kafka.ssl.key.pem": KEY}
    schema = StructType([StructField("value", StringType())])
    write_plan.plan_batch(options, schema)
    assert "contains a secret" not in caplog.text
    KafkaProdDataSource(options).writer(schema, False)
    assert "Option kafka.ssl.key.pem contains a secret" in caplog.text


def test_writer_pickles_literal_secrets_and_keeps_references(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A task needs the literal secret; unused secrets are not sent."""
    monkeypatch.setenv("LEAK_SHOWN", SENTINEL)
    login = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "alice"}
    schema = StructType([StructField("value", StringType())])

    def pickled(protocol: str, password: str) -> bytes:
        options = login | {"kafka.security.protocol": protocol, "kafka.sasl.password": password}
        source = KafkaProdDataSource(MINIMAL | options)
        writer = source.writer(schema, False)
        assert SENTINEL not in f"{source!r} {writer!r} {vars(writer)!r}"
        return pickle.dumps(writer)

    assert SENTINEL.encode() in pickled("SASL_PLAINTEXT", SENTINEL)
    assert SENTINEL.encode() not in pickled("SASL_PLAINTEXT", "env:LEAK_SHOWN")
    assert b"env:LEAK_SHOWN" in pickled("SASL_PLAINTEXT", "env:LEAK_SHOWN")
    assert SENTINEL.encode() not in pickled("PLAINTEXT", SENTINEL)


@pytest.mark.parametrize("option", ["kafka.acks", "kafka.linger.ms", "kafka.security.protocol"])
def test_value_that_spark_would_redact_is_not_repeated(option: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SinkConfig.parse(MINIMAL | {option: f"password={SENTINEL}"})
    assert option in str(caught.value)
    assert SENTINEL not in f"{caught.value!s} {caught.value!r}"
