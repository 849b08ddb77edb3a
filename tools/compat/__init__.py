"""Compare the embedded broker with Kafka, and test it with third-party clients."""
