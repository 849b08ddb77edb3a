"""The embedded broker beside Kafka, and under other people's clients."""
