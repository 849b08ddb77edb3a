"""Spark into a real secured Kafka: its own sink's options are ours."""
