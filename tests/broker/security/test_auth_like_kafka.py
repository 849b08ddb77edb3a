"""Compare responses of a real Kafka and the embedded broker to unauthorized requests and logins.

Requests of a user without permissions, and of clients with invalid logins.
"""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.security.raw_sasl import authenticate, handshake, log_in, plain
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User, password
from tools.support.raw_client import TIMEOUT, RawClient, batch, create, produce_values

USER = User.MALLORY.value
PASSWORD = password(USER)
TRANSACTION = {"transactional_id": "x", "producer_id": 1, "producer_epoch": 0}
NEW = {"name": "new", "num_partitions": 1, "replication_factor": 1}
TOPICS_TO_COMMIT = [{"name": "shut", "partitions": [{"partition_index": 0, "committed_offset": 3}]}]
TOPICS_TO_FETCH = [{"name": "shut", "partition_indexes": [0]}]
REQUESTS: dict[str, tuple[ApiKey, int, dict[str, Any]]] = {
    "topics by name": (ApiKey.METADATA, 12, {"topics": [{"name": "shut"}, {"name": "none"}]}),
    "all topics": (ApiKey.METADATA, 9, {"topics": None}),
    "operations": (
        ApiKey.METADATA,
        9,
        {"topics": [{"name": "shut"}], "include_topic_authorized_operations": True},
    ),
    "create": (ApiKey.CREATE_TOPICS, 7, {"topics": [NEW], "timeout": TIMEOUT}),
    "delete": (ApiKey.DELETE_TOPICS, 5, {"topic_names": ["shut"], "timeout": TIMEOUT}),
    "more partitions": (
        ApiKey.CREATE_PARTITIONS,
        3,
        {
            "topics": [{"name": "shut", "count": 5, "assignments": None}],
            "timeout": TIMEOUT,
            "validate_only": False,
        },
    ),
    "idempotent": (ApiKey.INIT_PRODUCER_ID, 4, {"transaction_timeout": TIMEOUT}),
    "transactional": (
        ApiKey.INIT_PRODUCER_ID,
        4,
        {"transactional_id": "x", "transaction_timeout": TIMEOUT},
    ),
    "end of a transaction": (ApiKey.END_TXN, 3, {**TRANSACTION, "committed": True}),
    "offsets in a transaction": (
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        {**TRANSACTION, "group_id": "x", "generation_id": -1, "topics": TOPICS_TO_COMMIT},
    ),
    "produce": (ApiKey.PRODUCE, 9, produce_values("shut", bytes(batch()))),
    "list offsets": (
        ApiKey.LIST_OFFSETS,
        5,
        {
            "replica_id": -1,
            "topics": [{"name": "shut", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
    ),
    "coordinator of a group": (ApiKey.FIND_COORDINATOR, 3, {"key": "x", "key_type": 0}),
    "coordinator of a transaction": (ApiKey.FIND_COORDINATOR, 3, {"key": "x", "key_type": 1}),
    "coordinators": (ApiKey.FIND_COORDINATOR, 4, {"key_type": 1, "coordinator_keys": ["x"]}),
    "heartbeat": (ApiKey.HEARTBEAT, 3, {"group_id": "x", "generation_id": 1, "member_id": "m"}),
    "fetch offsets": (
        ApiKey.OFFSET_FETCH,
        8,
        {"groups": [{"group_id": "x", "topics": TOPICS_TO_FETCH}]},
    ),
    "fetch offsets of one": (ApiKey.OFFSET_FETCH, 7, {"group_id": "x", "topics": TOPICS_TO_FETCH}),
    "commit": (
        ApiKey.OFFSET_COMMIT,
        8,
        {"group_id": "x", "generation_id_or_member_epoch": -1, "topics": TOPICS_TO_COMMIT},
    ),
    "describe groups": (ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["x"]}),
    "delete groups": (ApiKey.DELETE_GROUPS, 2, {"groups_names": ["x"]}),
    "list groups": (ApiKey.LIST_GROUPS, 3, {}),
    "configs": (
        ApiKey.DESCRIBE_CONFIGS,
        4,
        {
            "resources": [
                {"resource_type": 2, "resource_name": "shut"},
                {"resource_type": 4, "resource_name": "1"},
            ]
        },
    ),
    "log dirs": (ApiKey.DESCRIBE_LOG_DIRS, 4, {"topics": None}),
    "transactions": (ApiKey.DESCRIBE_TRANSACTIONS, 0, {"transactional_ids": ["x"]}),
    "producers": (ApiKey.DESCRIBE_PRODUCERS, 0, {"topics": TOPICS_TO_FETCH}),
    "describe": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        {"topics": [{"name": "shut"}], "response_partition_limit": 10, "cursor": None},
    ),
    "cluster": (ApiKey.DESCRIBE_CLUSTER, 0, {"include_cluster_authorized_operations": True}),
}


@pytest.fixture(scope="module")
def addresses() -> Iterator[tuple[str, str]]:
    """Yield the addresses of both brokers."""
    resources: tuple[dict[str, str], ...] = (
        {"topic": "*"},
        {"group": "*"},
        {"transactional_id": "*"},
        {},
    )
    with (
        SecuredKafka(listeners=[Listener.SASL_PLAINTEXT]) as real,
        EmbeddedBroker(topics={"shut": 1}, sasl={USER: PASSWORD}) as ours,
    ):
        with RawClient(real.bootstrap_servers) as client:
            create(client, "shut")
        for resource in resources:
            ours.deny(USER, "All", **resource)
        yield real.servers(Listener.SASL_PLAINTEXT), ours.bootstrap_servers


def comparable(response: Any) -> str:
    """Return a response without broker addresses and the cluster ID."""
    fields = ("brokers", "cluster_id", "controller_id", "throttle_time")
    return str([(n, getattr(response, n)) for n in response.__slots__ if n not in fields])


@pytest.mark.parametrize("name", REQUESTS)
def test_unauthorized_requests_get_kafkas_responses(addresses: tuple[str, str], name: str) -> None:
    api, version, values = REQUESTS[name]
    answers = []
    for servers in addresses:
        with RawClient(servers) as client:
            log_in(client, USER, PASSWORD)
            answers.append(comparable(client.call(api, version, **values)))
    assert answers[1] == answers[0]


def failed_login(client: RawClient, message: bytes, mechanism: str = "PLAIN") -> Any:
    handshake(client, mechanism)
    response = authenticate(client, message)
    return response.error_code, response.error_message, response.auth_bytes, client.closed()


def first(client: RawClient, api: ApiKey, version: int, **values: Any) -> Any:
    client.send(api, version, **values)
    return client.closed()


def versions_twice(client: RawClient) -> Any:
    code = client.call(ApiKey.API_VERSIONS, 2).error_code
    return code, first(client, ApiKey.API_VERSIONS, 2)


def handshake_again(client: RawClient) -> Any:
    codes = [log_in(client, USER, PASSWORD).error_code, handshake(client).error_code]
    response = authenticate(client, plain(USER, PASSWORD))
    return codes, response.error_code, response.error_message


def bare_token(client: RawClient, message: bytes) -> Any:
    handshake(client, version=0)
    client.socket.sendall(len(message).to_bytes(4, "big") + message)
    return client.socket.recv(4)


def unknown_mechanism(client: RawClient) -> Any:
    return handshake(client, "NOPE").error_code, client.closed()


def oversized_token(client: RawClient) -> Any:
    client.socket.sendall((600_000).to_bytes(4, "big"))
    return client.closed()


STEPS: dict[str, Callable[[RawClient], object]] = {
    "wrong password": lambda c: failed_login(c, plain(USER, "guessed")),
    "no user": lambda c: failed_login(c, plain("", "x")),
    "no password": lambda c: failed_login(c, plain(USER, "")),
    "another's id": lambda c: failed_login(c, b"bob" + plain(USER, PASSWORD)),
    "one token": lambda c: failed_login(c, b"nothing"),
    "four tokens": lambda c: failed_login(c, b"a\0b\0c\0d"),
    "an empty message": lambda c: failed_login(c, b""),
    "scram, unknown user": lambda c: failed_login(c, b"n,,n=nobody,r=abc", "SCRAM-SHA-256"),
    "scram, random bytes": lambda c: failed_login(c, b"noise", "SCRAM-SHA-512"),
    "scram, another's id": lambda c: failed_login(
        c, f"n,a=bob,n={USER},r=abc".encode(), "SCRAM-SHA-256"
    )[:2],
    "unknown mechanism": unknown_mechanism,
    "versions twice": versions_twice,
    "metadata first": lambda c: first(c, ApiKey.METADATA, 9, topics=[]),
    "token first": lambda c: first(c, ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b""),
    "again": handshake_again,
    "bare token": lambda c: bare_token(c, plain(USER, PASSWORD)),
    "bare token, wrong": lambda c: bare_token(c, plain(USER, "guessed")),
    "an oversized frame": oversized_token,
}


@pytest.mark.parametrize("name", STEPS)
def test_invalid_login_sequences_get_kafkas_responses(
    addresses: tuple[str, str], name: str
) -> None:
    answers = []
    for servers in addresses:
        with RawClient(servers) as client:
            answers.append(STEPS[name](client))
    assert answers[1] == answers[0]


def test_unauthorized_fetch_gets_kafkas_response(addresses: tuple[str, str]) -> None:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    answers = []
    for servers in addresses:
        with RawClient(servers) as client:
            log_in(client, USER, PASSWORD)
            response = client.call(
                ApiKey.FETCH,
                11,
                replica_id=-1,
                max_wait=timedelta(0),
                max_bytes=1000,
                session_id=0,
                session_epoch=-1,
                topics=[{"topic": "shut", "partitions": [partition]}],
            )
            fetched = response.responses[0].partitions[0]
            answers.append(
                (fetched.error_code, fetched.high_watermark, fetched.aborted_transactions)
            )
    assert answers[1] == answers[0]
