"""Write with TLS and a login, to an embedded broker that this script starts.

For your Kafka, set `kafka.bootstrap.servers`, and give the password as env:NAME or file:PATH.
"""

import os

from pyspark.sql import SparkSession

from spark_kafka_sink import EmbeddedBroker, read_records

os.environ["KAFKA_PASSWORD"] = "wonderland"  # noqa: S105 - in a real job the scheduler sets it

with EmbeddedBroker(tls=True, sasl={"alice": "wonderland"}, topics={"orders": 4}) as broker:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "topic": "orders",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(broker.ca_file),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "env:KAFKA_PASSWORD",
    }
    spark = SparkSession.builder.appName("example-secured").getOrCreate()
    orders = spark.range(1000).selectExpr("cast(id AS string) AS key", "uuid() AS value")
    orders.write.format("kafkaprod").options(**options).mode("append").save()
    print(len(read_records(**options)), "records were written with TLS and SCRAM-SHA-512")
    spark.stop()
