"""Fixtures for tests of files."""

from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def data_dir(folder: Path) -> str:
    return str(folder)
