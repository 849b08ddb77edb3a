"""Raw requests to a real Kafka and to the embedded broker; see `tools.compat.compare_brokers`."""
