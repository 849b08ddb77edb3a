"""Kafka's own classes for the golden tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tools.support.java import Jvm, kafka_jvm

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def jvm() -> Iterator[Jvm]:
    """One JVM for the whole session."""
    with kafka_jvm() as running:
        yield running
