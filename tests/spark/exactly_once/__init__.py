"""Exactly-once writes, read by another read_committed client."""
