"""Batches in Redis Streams."""
