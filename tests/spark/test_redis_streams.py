"""Write from Spark to Redis Streams through the embedded broker."""

from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from spark_kafka_sink import EmbeddedBroker
from tests.spark.support.sink import Sink
from tests.support.redis_server import RedisServer

ROWS = 5_000


def test_write_to_redis_streams(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, ROWS, 1, 3).selectExpr(
        "cast(id AS string) AS key",
        "concat('value ', id) AS value",
        "array(named_struct('key', 'from', 'value', cast('spark' AS binary))) AS headers",
    )
    with RedisServer(tmp_path) as redis:
        with EmbeddedBroker(topics={"t": 2}, storage=redis.url("korvet")) as broker:
            Sink(spark, broker.bootstrap_servers).write(
                frame, topic="t", kafka__compression__type="zstd"
            )
        entries = [
            cast("dict[bytes, bytes]", entry)
            for number in (0, 1)
            for _, entry in redis.client.xrange(f"korvet:t:{number}") or ()
        ]
    assert len(entries) == ROWS
    assert {entry[b"key"]: entry[b"value"] for entry in entries} == {
        b"%d" % number: b"value %d" % number for number in range(ROWS)
    }
    assert all(entry[b"header.from"] == b"spark" for entry in entries)
