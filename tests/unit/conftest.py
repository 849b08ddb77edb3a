"""A producer without a network, for all unit tests."""

from collections.abc import Iterator

import pytest

from tests.support.harness.world import World, world


@pytest.fixture
def sim() -> Iterator[World]:
    """Return a world with one broker and the topic `t` with four partitions."""
    with world() as sim:
        yield sim
