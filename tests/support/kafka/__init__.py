"""A real Apache Kafka for tests and benches: jars, brokers, foreign readers, golden bytes."""
