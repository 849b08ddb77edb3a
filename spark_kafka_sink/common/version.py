"""The package's version, defined only here."""

from __future__ import annotations

__version__ = "0.1.0"
