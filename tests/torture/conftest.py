"""One torture cluster for all tests in this folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.torture.cluster import TortureCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def torture_cluster() -> Iterator[TortureCluster]:
    """Run three nodes behind proxies; all are healthy after each run."""
    with TortureCluster() as cluster:
        yield cluster
