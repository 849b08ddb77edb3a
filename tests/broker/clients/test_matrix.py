"""The checks of `tools.compat.client_matrix` succeed on three nodes, with all clients but Spark."""

import pytest

from spark_kafka_sink import EmbeddedBroker
from tools.compat.clients.checks import ClientRow, Task
from tools.compat.clients.command_line_clients import CONSOLE, KCAT, PERFORMANCE
from tools.compat.clients.python_clients import AIOKAFKA, CONFLUENT, KAFKA_PYTHON

CHECKS = [
    pytest.param(client, task, id=f"{client.name.partition(',')[0]}, {task}")
    for client in (AIOKAFKA, CONFLUENT, CONSOLE, KAFKA_PYTHON, KCAT, PERFORMANCE)
    for task in client.checks
]


@pytest.mark.parametrize(("client", "task"), CHECKS)
def test_every_client_performs_its_tasks(client: ClientRow, task: Task) -> None:
    with EmbeddedBroker(nodes=3, replication_factor=3, auto_create_topics=True) as kafka:
        client.checks[task](kafka.bootstrap_servers)
