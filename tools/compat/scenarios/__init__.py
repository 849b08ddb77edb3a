"""Scenarios of raw requests for `tools.compat.compare_brokers`."""
