"""Brokers that crash, hang, move leaders or are outdated, and servers that are not brokers."""
