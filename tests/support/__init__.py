"""Helpers for tests: real clusters, other clients, the unit test harness."""
