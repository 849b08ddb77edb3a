"""Third-party clients of the embedded broker, for `tools.compat.client_matrix`.

- `checks`: the tasks, and the checks of their results
- `python_clients`: confluent-kafka, kafka-python and aiokafka
- `command_line_clients`: kcat, and the tools of Kafka
- `spark_client`: Spark's own source and sink
"""
