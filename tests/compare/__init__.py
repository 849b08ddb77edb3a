"""The same raw requests to a real Kafka and to the embedded broker; see `tests.tools.compare`."""
