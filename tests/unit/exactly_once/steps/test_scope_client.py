"""The time limits of a driver whose brokers do not respond."""

from collections.abc import Iterator

import pytest

from spark_kafka_sink.common.errors import BrokerUnavailableError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.scope_state import NoDecision
from spark_kafka_sink.exactly_once.steps.end_transactions import APPEND_TIMEOUT_S
from spark_kafka_sink.exactly_once.steps.orphans import abort_orphans, abort_own
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.decisions import ORDERS, decided, task_transactions
from tests.support.harness.scripted import ScriptedCluster, blocking_client

MAX_BLOCK_S = 0.1
LIMIT_S = 0.9 * APPEND_TIMEOUT_S
"""Less than every time limit of one request without max.block.ms."""


@pytest.fixture
def driver() -> Iterator[ScopeClient]:
    """Yield a driver with a short max.block.ms, whose brokers do not respond to its requests."""
    cluster = ScriptedCluster()
    for api in (ApiKey.FIND_COORDINATOR, ApiKey.LIST_TRANSACTIONS):
        cluster.scripts[api] = lambda _node, _request: {}
        cluster.unanswered.add(api)
    config = SinkConfig.parse(
        {
            "kafka.bootstrap.servers": "localhost:1",
            "kafka.max.block.ms": str(int(1000 * MAX_BLOCK_S)),
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": "orders",
        }
    )
    with blocking_client(cluster) as client:
        yield ScopeClient(client, config, ORDERS)


def test_aborts_end_after_max_block_ms(driver: ScopeClient) -> None:
    began, tasks = driver.timer.now(), task_transactions(2)
    names = {task.transactional_id for task in tasks}
    assert abort_own(driver, tasks, names).left_open == names
    assert abort_orphans(driver, NoDecision(), frozenset({"0123456789abcdef"})).problem
    assert driver.timer.now() - began < LIMIT_S


def test_append_with_its_own_limit_ends_after_max_block_ms(driver: ScopeClient) -> None:
    began, (task,) = driver.timer.now(), task_transactions(1)
    with pytest.raises(BrokerUnavailableError):
        driver.log.append(task.transaction, decided(1), APPEND_TIMEOUT_S)
    assert driver.timer.now() - began < LIMIT_S
