"""Fixtures for tests of files."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "data")
