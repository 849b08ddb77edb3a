"""The base layer."""
