"""Secrets in options do not appear in errors, console, event log, pickles or reports."""

import pickle
from pathlib import Path

import pytest

from spark_kafka_sink.common.errors import KafkaProdError
from tests.spark.support.console import Console
from tests.spark.support.sink import Sink

SENTINEL = "Sentinel-7f3a9"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = f'{LOGIN} username="a" password="{SENTINEL}"'
"""Invalid because the semicolon is missing."""
SECURED = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
SECRETS = {
    "kafka.sasl.jaas.config": JAAS,
    "kafka.sasl.password": SENTINEL,
    "kafka.ssl.keystore.key": SENTINEL,
    "kafka.ssl.keystore.password": SENTINEL,
    "kafka.ssl.truststore.password": SENTINEL,
}

OPTION_IN_ERROR = {"kafka.sasl.password": "kafka.sasl.username"}
"""The option in the error, if it is not the one with the secret."""


@pytest.mark.parametrize("name", SECRETS)
def test_invalid_secret_is_not_shown(
    name: str, sink: Sink, topic: str, console: Console, spark_folder: Path
) -> None:
    """Each option lacks a related option or is invalid."""
    mark = console.mark()
    frame = sink.frame("value string", ("a",))
    options = {**SECURED, name: SECRETS[name]}
    error, jobs = sink.jobs_of(lambda: sink.write(frame, topic=topic, **options))
    assert OPTION_IN_ERROR.get(name, name) in str(error)
    assert jobs == 0
    assert SENTINEL not in f"{error!s} {error!r}"
    assert SENTINEL not in console.text(mark)
    for log in (spark_folder / "events").iterdir():
        assert SENTINEL not in log.read_text(errors="replace")


def test_secret_in_an_address_is_not_shown(sink: Sink, topic: str, console: Console) -> None:
    mark = console.mark()
    frame = sink.frame("value string", ("a",))
    address = f"user:{SENTINEL}@127.0.0.1:9092"
    error, _ = sink.jobs_of(
        lambda: sink.write(frame, topic=topic, **{"kafka.bootstrap.servers": address})
    )
    assert "bootstrap.servers" in str(error)
    assert SENTINEL not in f"{error!s} {error!r}"
    assert SENTINEL not in console.text(mark)


def test_pickled_writer_contains_no_unused_secret(sink: Sink) -> None:
    """Ignored options are not sent to tasks."""
    from spark_kafka_sink import KafkaProdDataSource  # needs data sources

    schema = sink.frame("value string").schema
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:1",
        "topic": "t",
        "kafka.metric.reporters": SENTINEL,
        "password": SENTINEL,
        **SECRETS,  # unused without kafka.security.protocol
    }
    source = KafkaProdDataSource(options)
    for writer in (source.writer(schema, False), source.streamWriter(schema, False)):
        assert SENTINEL.encode() not in pickle.dumps(writer)
    with pytest.raises(KafkaProdError) as caught:
        KafkaProdDataSource({**options, **SECURED}).writer(schema, False)
    assert SENTINEL.encode() not in pickle.dumps(caught.value)
    assert SENTINEL not in str(caught.value)
