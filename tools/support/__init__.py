"""Helpers for tools and tests."""
