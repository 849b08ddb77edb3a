"""Writes from Python threads that did not create the session."""

from concurrent.futures import ThreadPoolExecutor

from pyspark.sql import SparkSession

from spark_kafka_sink import EmbeddedBroker, register


def test_each_thread_writes_after_register(
    spark: SparkSession, embedded_broker: EmbeddedBroker
) -> None:
    topics = ["thread-a", "thread-b"]
    frame = spark.range(0, 10, 1, 1).selectExpr("CAST(id AS STRING) AS value")

    def write(topic: str) -> None:
        writer = frame.write.format("kafkaprod").mode("append").option("topic", topic)
        writer.option("kafka.bootstrap.servers", embedded_broker.bootstrap_servers).save()

    for topic in topics:
        embedded_broker.create_topic(topic, 1)
    with ThreadPoolExecutor(2, initializer=register, initargs=(spark,)) as pool:
        list(pool.map(write, topics))
    assert [embedded_broker.end_offsets(topic) for topic in topics] == [[10], [10]]
