"""One torture cluster for all tests here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.torture.cluster import TortureCluster

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def torture_cluster() -> Iterator[TortureCluster]:
    """Three nodes behind proxies; every run leaves them healthy."""
    with TortureCluster() as cluster:
        yield cluster
