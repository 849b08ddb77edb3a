"""Some torture seeds; `make torture` continues with other seeds."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from tools.torture.harness import Result
from tools.torture.producer.plan import ClusterFault, Plan, draw

Runner: TypeAlias = Callable[[Plan], Result[Plan]]

QUICK_SEEDS = range(900_001, 900_006)
SECURED_SEEDS = range(900_201, 900_204)
CLUSTER_FAULTS = (ClusterFault.KILL, ClusterFault.PAUSE, ClusterFault.RECREATE)


@pytest.mark.parametrize("seed", QUICK_SEEDS)
def test_network_faults_lose_and_repeat_nothing(torture: Runner, seed: int) -> None:
    result = torture(draw(seed, quick=True))
    assert not result.wrong


@pytest.mark.parametrize("cluster_fault", CLUSTER_FAULTS)
def test_broker_faults_lose_and_repeat_nothing(
    torture: Runner, cluster_fault: ClusterFault
) -> None:
    plan = replace(draw(900_100, quick=True), cluster_faults=(cluster_fault,))
    result = torture(plan)
    assert not result.wrong
    assert result.line()["records"] > 0


@pytest.mark.parametrize("seed", SECURED_SEEDS)
def test_network_faults_with_sasl_and_tls(torture: Runner, seed: int) -> None:
    """Sessions expire after two seconds, and faults also affect SASL exchanges."""
    plan = replace(draw(seed, quick=True), secured=True)
    result = torture(plan)
    assert not result.wrong
    assert result.line()["protocol"] == "SASL_SSL"


@pytest.mark.parametrize("cluster_fault", [ClusterFault.KILL, ClusterFault.PAUSE])
def test_faults_of_secured_brokers(torture: Runner, cluster_fault: ClusterFault) -> None:
    plan = draw(900_300, quick=True)
    result = torture(replace(plan, cluster_faults=(cluster_fault,), secured=True))
    assert not result.wrong
    assert result.line()["records"] > 0
