"""Write from Spark with every client configuration, and compare with Spark's built-in sink."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark.support.append import append
from tests.spark.support.sink import JVM, OURS
from tests.spark.support.stream import start_stream
from tests.support.security.client_configs import CLIENT_CONFIGS, ClientConfig
from tests.support.security.secured_kafka import SecuredKafka
from tools.support.readers import numbers_in

ROWS = 300
WAIT_S = 240
WRITES = [
    pytest.param(form, client, id=f"{form}, {client.name}")
    for form in (JVM, OURS)
    for client in CLIENT_CONFIGS
    if client.jvm or form == OURS
]


def frame(spark: SparkSession) -> DataFrame:
    return spark.range(0, ROWS, 1, 2).selectExpr("CAST(id AS STRING) AS value")


def write(spark: SparkSession, form: str, options: dict[str, str], topic: str) -> None:
    if form == JVM:
        frame(spark).write.format(form).mode("append").options(**options, topic=topic).save()
    else:
        append(frame(spark), {**options, "topic": topic})


@pytest.mark.parametrize(("form", "client"), WRITES)
def test_batch_is_written_with_every_configuration(
    spark: SparkSession, kafka: SecuredKafka, topic: str, form: str, client: ClientConfig
) -> None:
    write(spark, form, client.spark_options(kafka), topic)
    assert numbers_in(kafka.bootstrap_servers, topic) == list(range(ROWS))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write two text files with numbers."""
    folder = tmp_path / "source"
    folder.mkdir()
    for start in (0, ROWS // 2):
        lines = [f"{number}\n" for number in range(start, start + ROWS // 2)]
        (folder / f"{start}.txt").write_text("".join(lines))
    return folder


def test_streams_are_written_with_every_configuration(
    spark: SparkSession, kafka: SecuredKafka, unique_topic: str, source: Path, tmp_path: Path
) -> None:
    """Run one query for the first configuration of each listener, at the same time."""

    def start(number: int, client: ClientConfig) -> StreamingQuery:
        kafka.admin.create_topic(f"{unique_topic}-{number}", 3)
        stream = spark.readStream.text(str(source))
        options = {**client.spark_options(kafka), "topic": f"{unique_topic}-{number}"}
        checkpoint = str(tmp_path / f"checkpoint-{number}")
        writer = stream.writeStream.option("checkpointLocation", checkpoint)
        return start_stream(writer.trigger(availableNow=True), options)

    clients = list({client.listener: client for client in reversed(CLIENT_CONFIGS)}.values())
    queries = {number: start(number, client) for number, client in enumerate(clients)}
    for number, query in queries.items():
        assert query.awaitTermination(WAIT_S), clients[number].name
        assert query.exception() is None, clients[number].name
        assert numbers_in(kafka.bootstrap_servers, f"{unique_topic}-{number}") == list(
            range(ROWS)
        ), clients[number].name
