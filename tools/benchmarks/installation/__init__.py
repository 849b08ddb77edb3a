"""The folder of modules that stand for what only tests have installed."""

from pathlib import Path

AS_USERS_HAVE = Path(__file__).parent
"""First in the PYTHONPATH of measured processes."""
