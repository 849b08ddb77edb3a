"""A secret among the options is shown nowhere: errors, console, event log, pickles, reports."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import KafkaProdDataSource
from spark_kafka_sink.common.errors import KafkaProdError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.support.console import Console
    from tests.spark.support.sink import Sink

SENTINEL = "Sentinel-7f3a9"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required password="{SENTINEL}";'
SECRETS = {
    "kafka.sasl.jaas.config": JAAS,
    "kafka.ssl.keystore.password": SENTINEL,
    "kafka.ssl.key.password": SENTINEL,
    "kafka.ssl.truststore.password": SENTINEL,
}


@pytest.mark.parametrize("name", SECRETS)
def test_a_refused_secret_is_not_shown(
    name: str, sink: Sink, topic: str, console: Console, spark_folder: Path
) -> None:
    mark = console.mark()
    frame = sink.frame("value string", ("a",))
    error, jobs = sink.jobs_of(lambda: sink.write(frame, topic=topic, **{name: SECRETS[name]}))
    assert name in str(error)
    assert jobs == 0
    assert SENTINEL not in f"{error!s} {error!r}"
    assert SENTINEL not in console.text(mark)
    for log in (spark_folder / "events").iterdir():
        assert SENTINEL not in log.read_text(errors="replace")


def test_a_secret_in_an_address_is_not_shown(sink: Sink, topic: str, console: Console) -> None:
    mark = console.mark()
    frame = sink.frame("value string", ("a",))
    address = f"user:{SENTINEL}@127.0.0.1:9092"
    error, _ = sink.jobs_of(
        lambda: sink.write(frame, topic=topic, **{"kafka.bootstrap.servers": address})
    )
    assert "bootstrap.servers" in str(error)
    assert SENTINEL not in f"{error!s} {error!r}"
    assert SENTINEL not in console.text(mark)


def test_the_pickled_writer_holds_no_secret(sink: Sink) -> None:
    """Options that are ignored go no further than the driver."""
    schema = sink.frame("value string").schema
    options = {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "topic": "t",
        "kafka.metric.reporters": SENTINEL,
        "password": SENTINEL,
    }
    source = KafkaProdDataSource(options)
    for writer in (source.writer(schema, False), source.streamWriter(schema, False)):
        assert SENTINEL.encode() not in pickle.dumps(writer)
    with pytest.raises(KafkaProdError) as caught:
        KafkaProdDataSource({**options, **SECRETS}).writer(schema, False)
    assert SENTINEL.encode() not in pickle.dumps(caught.value)
    assert SENTINEL not in str(caught.value)
