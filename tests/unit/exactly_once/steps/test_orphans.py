"""Which listed transactions a driver aborts."""

from typing import Any

import pytest

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.scope_state import Done
from spark_kafka_sink.exactly_once.steps.orphans import abort_listed_orphans
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.decisions import ORDERS
from tests.support.harness.scripted import blocking_client, code
from tests.unit.kafka.admin.scripted_coordinator import ScriptedCoordinator

NONCE, OTHER = "0123456789abcdef", "fedcba9876543210"
OLD, NEXT = f"orders/stream/q/17/{NONCE}/0/1", f"orders/stream/q/18/{OTHER}/0/2"
DONE = Done(query_id="q", batch="17")


@pytest.mark.parametrize(
    ("state", "given_up", "aborted"),
    [
        ("Ongoing", frozenset(), {OLD}),
        ("ongoing", frozenset(), {OLD}),
        ("Ongoing", frozenset({OTHER}), {OLD, NEXT}),
        ("ongoing", frozenset({OTHER}), {OLD, NEXT}),
        ("Empty", frozenset({OTHER}), {NEXT}),
    ],
)
def test_state_names_of_other_brokers(
    state: str, given_up: frozenset[str], aborted: set[str]
) -> None:
    """Redpanda compares its transactions with Kafka's states, but lists them as `ongoing`."""
    cluster = ScriptedCoordinator()
    listed = [
        {"transactional_id": name, "transaction_state": state, "producer_id": 7}
        for name in (OLD, NEXT)
    ]
    cluster.scripts[ApiKey.LIST_TRANSACTIONS] = lambda *_: code(0) | {"transaction_states": listed}
    cluster.limit(ApiKey.DESCRIBE_TRANSACTIONS, None)
    options: dict[str, Any] = {
        "kafka.bootstrap.servers": "localhost:1",
        "deliveryGuarantee": "exactly-once",
        "transactionalIdPrefix": "orders",
    }
    with blocking_client(cluster) as client:
        driver = ScopeClient(client, SinkConfig.parse(options), ORDERS)
        assert abort_listed_orphans(driver, DONE, given_up).ended == aborted
