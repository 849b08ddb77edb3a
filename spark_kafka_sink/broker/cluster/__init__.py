"""Nodes, topics and their leaders: what Kafka's controller knows."""
