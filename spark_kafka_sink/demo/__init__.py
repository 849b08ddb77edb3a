"""`kafkaprod demo`: write flights with Spark to Kafka, and check them with librdkafka.

Kafka is the embedded broker, unless the user names another cluster.

In reading order:

- `run`: the steps of the demo, its options and its output
- `spark_job`: the flights, the local Spark session and the write
- `topic`: the topic as librdkafka reads it
- `check`: the comparison with the source and the delivery report
"""
