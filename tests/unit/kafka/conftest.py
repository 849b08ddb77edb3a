"""Fixtures for the blocking client and the packages above it."""

import pytest

from tests.unit.kafka.admin.scripted_coordinator import ScriptedCoordinator


@pytest.fixture
def cluster() -> ScriptedCoordinator:
    return ScriptedCoordinator()
