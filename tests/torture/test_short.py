"""Some torture seeds; `make torture` continues with other seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tools.torture.producer.plan import ClusterFault, draw
from tools.torture.producer.run import run

if TYPE_CHECKING:
    from tools.torture.cluster import TortureCluster

QUICK_SEEDS = range(900_001, 900_006)
SECURED_SEEDS = range(900_201, 900_204)
CLUSTER_FAULTS = (ClusterFault.KILL, ClusterFault.PAUSE, ClusterFault.RECREATE)


@pytest.mark.parametrize("seed", QUICK_SEEDS)
def test_network_faults(torture_cluster: TortureCluster, seed: int) -> None:
    result = run(torture_cluster, draw(seed, disk=False, quick=True))
    assert not result.wrong


@pytest.mark.parametrize("cluster_fault", CLUSTER_FAULTS)
def test_broker_faults(torture_cluster: TortureCluster, cluster_fault: ClusterFault) -> None:
    plan = replace(draw(900_100, disk=False, quick=True), cluster_faults=(cluster_fault,))
    result = run(torture_cluster, plan)
    assert not result.wrong
    assert result.line()["records"] > 0


@pytest.mark.parametrize("seed", SECURED_SEEDS)
def test_network_faults_with_sasl_and_tls(torture_cluster: TortureCluster, seed: int) -> None:
    """Sessions expire after two seconds, and faults also affect SASL exchanges."""
    plan = replace(draw(seed, disk=False, quick=True), secured=True)
    result = run(torture_cluster, plan)
    assert not result.wrong
    assert result.line()["protocol"] == "SASL_SSL"


@pytest.mark.parametrize("cluster_fault", [ClusterFault.KILL, ClusterFault.PAUSE])
def test_faults_of_secured_brokers(
    torture_cluster: TortureCluster, cluster_fault: ClusterFault
) -> None:
    plan = draw(900_300, disk=False, quick=True)
    result = run(torture_cluster, replace(plan, cluster_faults=(cluster_fault,), secured=True))
    assert not result.wrong
    assert result.line()["records"] > 0
