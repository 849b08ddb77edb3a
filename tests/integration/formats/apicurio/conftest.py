"""Apicurio in several releases, and a broker that creates topics."""

from collections.abc import Iterator

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from spark_kafka_sink import EmbeddedBroker
from tests.support.apicurio import VERSIONS, apicurio


@pytest.fixture(scope="session", params=VERSIONS)
def client(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SchemaRegistryClient]:
    with apicurio(request.param, tmp_path_factory.mktemp("apicurio") / "log") as url:
        client = SchemaRegistryClient({"url": url})
        client.set_compatibility(level="BACKWARD")
        yield client


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(auto_create_topics=True) as broker:
        yield broker
