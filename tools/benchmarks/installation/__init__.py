"""Stubs for modules that are installed only for tests."""

from pathlib import Path

AS_USERS_HAVE = Path(__file__).parent
"""The first entry in the PYTHONPATH of measured processes."""
