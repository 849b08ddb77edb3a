"""Connect with every client configuration, using confluent-kafka and the producer."""

import pytest

from tests.support.producer_writes import numbered, produce
from tests.support.security.client_configs import CLIENT_CONFIGS, ClientConfig
from tests.support.security.secured_kafka import SecuredKafka
from tools.support.readers import numbers_in

ROWS = 2_000


@pytest.mark.parametrize("client", CLIENT_CONFIGS, ids=lambda client: client.name)
def test_producer_writes_with_every_configuration(
    kafka: SecuredKafka, topic: str, client: ClientConfig
) -> None:
    chunk = numbered(topic, 0, ROWS, 3)
    report = produce(kafka.servers(client.listener), chunk, **client.java_options(kafka))
    assert report.persisted == ROWS
    assert numbers_in(kafka.bootstrap_servers, topic) == list(range(ROWS))
