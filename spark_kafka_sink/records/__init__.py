"""The records layer."""
