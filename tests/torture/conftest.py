"""One torture cluster for all tests in this folder."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tools.torture.cluster import SecuredCluster
from tools.torture.harness import Result
from tools.torture.producer.plan import Plan
from tools.torture.producer.run import ProducerScenarios


@pytest.fixture(scope="session")
def torture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Plan], Result[Plan]]]:
    """Yield a function that runs a plan on three nodes; all are healthy after each run."""
    scenarios = ProducerScenarios(tmp_path_factory.mktemp("torture"))
    with SecuredCluster() as cluster:
        yield partial(scenarios.run, cluster)
