"""A session in a transaction, with transactions V1 and V2."""

from collections.abc import Iterator

import pytest

from tests.support.harness.world import World, world
from tests.unit.producer.transactions.transactional_session import SETTINGS, cluster


@pytest.fixture(params=[0, 2], ids=["V1", "V2"])
def sim(request: pytest.FixtureRequest) -> Iterator[World]:
    with world(cluster(request.param), transaction=SETTINGS) as open_world:
        yield open_world
