"""Helpers shared by tools and tests."""
