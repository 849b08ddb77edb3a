"""A broker with topics for records and dead letters, a schema registry, and a sink with both."""

from collections.abc import Iterator

import pytest

from spark_kafka_sink import EmbeddedBroker
from tests.integration.formats.registry_sink import RegistrySink
from tests.support.schema_registry import SmallRegistry, running


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"events": 1, "dead": 1}) as broker:
        yield broker


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with running() as registry:
        yield registry


@pytest.fixture
def sink(broker: EmbeddedBroker, registry: SmallRegistry) -> RegistrySink:
    return RegistrySink(broker, registry)
