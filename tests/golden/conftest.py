"""Kafka's own classes for the golden tests."""

from collections.abc import Iterator

import pytest

from tools.support.java import Jvm, kafka_jvm


@pytest.fixture(scope="session")
def jvm() -> Iterator[Jvm]:
    """One JVM for the whole session."""
    with kafka_jvm() as running:
        yield running
