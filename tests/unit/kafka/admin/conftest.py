"""Fixtures for the admin client."""

import pytest

from tests.unit.kafka.admin.scripted_coordinator import ScriptedCoordinator


@pytest.fixture
def cluster() -> ScriptedCoordinator:
    return ScriptedCoordinator()
