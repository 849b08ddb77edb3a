"""`kafkaprod demo`: write flights with Spark to Kafka, and check them with librdkafka.

The demo uses the embedded broker, unless the user specifies a Kafka cluster.

In reading order:

- `run`: the steps of the demo, its options and its output
- `flights`: the flights, the local Spark session and the write
- `demo_topic`: create, watch and read the topic with librdkafka
- `librdkafka_config`: the security settings as options of librdkafka
- `checks`: compare the records read with the flights and with the delivery report
"""
