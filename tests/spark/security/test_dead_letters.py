"""Dead letters of a Spark write use its listener and credentials."""

from pyspark.sql import SparkSession

from tests.spark.support.sink import Sink
from tests.support.security.client_configs import TRUST, ClientConfig, password_options
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User
from tools.support.readers import by_confluent

CLIENT = ClientConfig(
    name="carol",
    listener=Listener.SASL_SSL,
    options={**TRUST, **password_options("SCRAM-SHA-512", User.CAROL)},
)


def test_invalid_row_becomes_a_dead_letter(
    spark: SparkSession, kafka: SecuredKafka, topic: str
) -> None:
    letters = kafka.admin.create_topic(f"{topic}-dead")
    sink = Sink(spark, kafka.servers(CLIENT.listener))
    rows = sink.frame("value string, partition int", ("good", 0), ("poison", 99))
    dead = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    sink.write(rows, **{**CLIENT.spark_options(kafka), **dead, "topic": topic})
    for name, value in ((topic, b"good"), (letters, b"poison")):
        assert [record.value for record in by_confluent(kafka.bootstrap_servers, name)] == [value]
