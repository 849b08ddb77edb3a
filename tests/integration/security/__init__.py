"""The producer with a real secured Kafka: all client configurations, failures and rotation."""
