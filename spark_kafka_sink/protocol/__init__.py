"""Kafka's wire protocol: messages, headers, versions and frames, without any I/O."""
