"""Shared helpers: rows, sessions, servers that are not brokers, slow connections."""
