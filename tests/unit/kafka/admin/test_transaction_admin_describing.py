"""DescribeTransactions, ListTransactions and DescribeProducers."""

from collections.abc import Callable
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    KafkaProdError,
    ProtocolError,
    UnknownTopicError,
)
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.admin.transaction_description import ActiveProducer
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.transactions import TransactionState
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from tests.support.harness.offline import config
from tests.support.harness.scripted import blocking_client, code
from tests.unit.kafka.admin.scripted_coordinator import (
    STARTED,
    ScriptedCoordinator,
    described,
    opened,
)


def listed(name: str, state: str = "Ongoing") -> dict[str, Any]:
    return {"transactional_id": name, "transaction_state": state, "producer_id": 7}


def test_descriptions_come_from_each_coordinator() -> None:
    cluster = ScriptedCoordinator(nodes=2)
    cluster.coordinators = {"a": 1, "b": 2}
    cluster.scripts[ApiKey.DESCRIBE_TRANSACTIONS] = lambda _, request: {
        "transaction_states": [described(name) for name in request.transactional_ids]
    }
    with blocking_client(cluster) as client:
        descriptions = TransactionAdmin(client).describe(["a", "b"], client.deadline(10))
    description = descriptions["a"]
    assert sorted(descriptions) == ["a", "b"]
    assert (description.state, description.timeout_ms) == (TransactionState.ONGOING, 60_000)
    assert description.started_ms == STARTED.timestamp() * 1000
    assert description.partitions == (TopicPartition("t", 0), TopicPartition("t", 2))
    assert description.is_of(opened("a", epoch=3))
    assert not description.is_of(opened("a", epoch=4))


def test_unknown_id_is_omitted(cluster: ScriptedCoordinator) -> None:
    cluster.scripts[ApiKey.DESCRIBE_TRANSACTIONS] = lambda *_: {
        "transaction_states": [
            described("a"),
            described("b") | code(ErrorCode.transactional_id_not_found),
        ]
    }
    with blocking_client(cluster) as client:
        descriptions = TransactionAdmin(client).describe(["a", "b"], client.deadline(10))
    assert list(descriptions) == ["a"]


def test_unnamed_state_is_unknown() -> None:
    assert TransactionState("PrepareNonsense") is TransactionState.UNKNOWN


def test_missing_describe_permission_is_named(cluster: ScriptedCoordinator) -> None:
    cluster.find_codes["a"].extend([ErrorCode.transactional_id_authorization_failed])
    with (
        blocking_client(cluster) as client,
        pytest.raises(AuthorizationError, match="Describe on transactional id a is denied"),
    ):
        TransactionAdmin(client).describe(["a"], client.deadline(10))


@pytest.mark.parametrize("api", [ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS])
def test_brokers_before_3_0_do_not_support_it(cluster: ScriptedCoordinator, api: ApiKey) -> None:
    cluster.limit(api, None)
    with blocking_client(cluster) as client:
        admin, deadline = TransactionAdmin(client), client.deadline(10)
        ask: dict[ApiKey, Callable[[], object]] = {
            ApiKey.LIST_TRANSACTIONS: lambda: admin.list(None, deadline),
            ApiKey.DESCRIBE_TRANSACTIONS: lambda: admin.describe(["a"], deadline),
        }
        with pytest.raises(ProtocolError, match=r"3\.0 or later") as caught:
            ask[api]()
    assert caught.value.kafka_error == "UNSUPPORTED_VERSION"


def listing(cluster: ScriptedCoordinator, *states: str, version: int = 2) -> None:
    """Let each broker list an id of its own and one that all brokers list."""
    cluster.limit(ApiKey.LIST_TRANSACTIONS, VersionRange(0, version))
    cluster.scripts[ApiKey.LIST_TRANSACTIONS] = lambda node, _: {
        "transaction_states": [listed(f"p/{node}", *states), listed(f"other/{node}", *states)]
    }


@pytest.mark.parametrize("version", [0, 1, 2])
def test_all_brokers_are_listed_and_the_pattern_applies_everywhere(version: int) -> None:
    cluster = ScriptedCoordinator(nodes=3)
    listing(cluster, version=version)
    with blocking_client(cluster) as client:
        listed = TransactionAdmin(client).list(r"p/.*", client.deadline(10))
    assert [(transaction.transactional_id, transaction.coordinator) for transaction in listed] == [
        ("p/1", 1),
        ("p/2", 2),
        ("p/3", 3),
    ]
    requests = [request for _, request in cluster.requests_for(ApiKey.LIST_TRANSACTIONS)]
    assert "Ongoing" in requests[0].state_filters
    assert "CompleteCommit" not in requests[0].state_filters
    patterns = {getattr(request, "transactional_id_pattern", None) for request in requests}
    assert patterns == {r"p/.*" if version == 2 else None}


def test_pattern_is_applied_by_the_client_for_older_brokers(cluster: ScriptedCoordinator) -> None:
    listing(cluster)
    usual = cluster.scripts[ApiKey.LIST_TRANSACTIONS]
    cluster.scripts[ApiKey.LIST_TRANSACTIONS] = lambda node, request: (
        code(ErrorCode.invalid_regular_expression)
        if request.transactional_id_pattern
        else usual(node, request)
    )
    assert listed_ids(cluster, r"p(?!/2).*") == ["p/1"]


def listed_ids(cluster: ScriptedCoordinator, pattern: str) -> list[str]:
    with blocking_client(cluster) as client:
        listed = TransactionAdmin(client).list(pattern, client.deadline(10))
    return [transaction.transactional_id for transaction in listed]


def test_loading_coordinator_is_retried(cluster: ScriptedCoordinator) -> None:
    listing(cluster)
    usual, refusals = (
        cluster.scripts[ApiKey.LIST_TRANSACTIONS],
        [ErrorCode.coordinator_load_in_progress, ErrorCode.coordinator_load_in_progress],
    )
    cluster.scripts[ApiKey.LIST_TRANSACTIONS] = lambda node, request: (
        code(refusals.pop()) if refusals else usual(node, request)
    )
    with blocking_client(cluster) as client:
        assert len(TransactionAdmin(client).list(None, client.deadline(10))) == 2


def test_broker_that_left_the_cluster_is_not_waited_for() -> None:
    cluster = ScriptedCoordinator(nodes=3)
    listing(cluster)
    usual = cluster.scripts[ApiKey.LIST_TRANSACTIONS]

    def list_or_leave(node: int, request: Any) -> dict[str, Any] | None:
        if node == 2:
            cluster.stop(2)
            return {}
        return usual(node, request)

    cluster.scripts[ApiKey.LIST_TRANSACTIONS] = list_or_leave
    assert listed_ids(cluster, "p/.*") == ["p/1", "p/3"]


def test_broker_that_joins_meanwhile_is_queried() -> None:
    cluster = ScriptedCoordinator(nodes=3)
    cluster.alive.discard(3)
    listing(cluster)
    usual = cluster.scripts[ApiKey.LIST_TRANSACTIONS]

    def list_or_move(node: int, request: Any) -> dict[str, Any] | None:
        if 3 in cluster.alive:
            return usual(node, request)
        cluster.alive.add(3)
        return None

    cluster.scripts[ApiKey.LIST_TRANSACTIONS] = list_or_move
    assert listed_ids(cluster, "p/.*") == ["p/1", "p/2", "p/3"]


def test_unreachable_broker_is_reported_after_the_deadline() -> None:
    cluster = ScriptedCoordinator(nodes=2)
    listing(cluster)
    cluster.alive.discard(2)
    cluster.still_listed.add(2)
    with (
        blocking_client(cluster) as client,
        pytest.raises(BrokerUnavailableError, match=r"127\.0\.0\.1:40002: .*refused"),
    ):
        TransactionAdmin(client).list(None, client.deadline(1))


def test_producers_of_a_partition() -> None:
    cluster = ScriptedCoordinator(nodes=2, topics={"t": 2})
    states = {
        "producer_id": 7,
        "producer_epoch": 3,
        "last_sequence": 9,
        "last_timestamp": 1_000,
        "coordinator_epoch": 2,
        "current_txn_start_offset": 40,
    }

    def answer(_node: int, request: Any) -> dict[str, Any]:
        (topic,) = request.topics
        producers = [states, states | {"producer_id": 8, "current_txn_start_offset": -1}]
        partitions = [
            {"partition_index": number, "active_producers": producers}
            for number in topic.partition_indexes
        ]
        return {"topics": [{"name": topic.name, "partitions": partitions}]}

    cluster.scripts[ApiKey.DESCRIBE_PRODUCERS] = answer
    partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
    with blocking_client(cluster) as client:
        producers = TransactionAdmin(client).describe_producers(partitions, client.deadline(10))
    assert sorted(producers) == partitions
    assert {node for node, _ in cluster.requests_for(ApiKey.DESCRIBE_PRODUCERS)} == {1, 2}
    assert producers[partitions[0]][0] == ActiveProducer(
        producer_id=7, epoch=3, last_sequence=9, transaction_start=40
    )
    assert producers[partitions[0]][1].transaction_start is None


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (ErrorCode.topic_authorization_failed, AuthorizationError),
        (ErrorCode.unknown_topic_or_partition, UnknownTopicError),
    ],
)
def test_hidden_or_missing_topic(number: int, error: type[KafkaProdError]) -> None:
    cluster = ScriptedCoordinator(topics={"other": 1})
    cluster.metadata_errors["t"] = number
    with blocking_client(cluster) as client, pytest.raises(error) as caught:
        TransactionAdmin(client).describe_producers([TopicPartition("t", 0)], client.deadline(10))
    assert caught.value.topic == "t"


def test_broker_that_started_meanwhile_lists_its_transactions() -> None:
    """Otherwise they would stay open without a report."""
    with EmbeddedBroker(nodes=2) as kafka:
        kafka.stop_node(2)
        with BlockingClient(config(bootstrap_servers=kafka.bootstrap_servers)) as client:
            admin, deadline = TransactionAdmin(client), client.deadline(60)
            assert admin.list(None, deadline, ()) == []
            kafka.start_node(2)
            names = [f"a{number}" for number in range(20)]
            with BlockingClient(config(bootstrap_servers=kafka.bootstrap_servers)) as other:
                for name in names:
                    TransactionAdmin(other).init_producer_id(name, 60_000, other.deadline(60))
            listed = admin.list(None, deadline, ())
        assert {transaction.coordinator for transaction in listed} == {1, 2}
        assert sorted(transaction.transactional_id for transaction in listed) == sorted(names)


@pytest.mark.parametrize(
    ("api", "response", "text"),
    [
        (ApiKey.LIST_TRANSACTIONS, {"unknown_state_filters": ["Ongoing"]}, "ignores the states"),
        (
            ApiKey.LIST_TRANSACTIONS,
            code(ErrorCode.invalid_regular_expression),
            "contained no pattern",
        ),
        (ApiKey.METADATA, {}, "listed no brokers"),
    ],
)
def test_incomplete_list_is_an_error(api: ApiKey, response: dict[str, Any], text: str) -> None:
    """It must not count as a list without open transactions."""
    cluster = ScriptedCoordinator()
    cluster.scripts[ApiKey.LIST_TRANSACTIONS] = lambda *_: {}
    with blocking_client(cluster) as client:
        client.await_metadata(client.deadline(10))
        cluster.scripts[api] = lambda *_: response
        with pytest.raises(ProtocolError, match=text):
            TransactionAdmin(client).list("a.*", client.deadline(10))
