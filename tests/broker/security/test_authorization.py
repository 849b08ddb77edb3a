"""Authorization errors of each API, as in Kafka's KafkaApis."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.security.raw_sasl import log_in
from tools.support.raw_client import TIMEOUT, RawClient, batch, create, produce_values

TOPIC = ErrorCode.topic_authorization_failed
TRANSACTION = ErrorCode.transactional_id_authorization_failed
NONE = ErrorCode.none


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    topics = {"open": 2, "shut": 2}
    with EmbeddedBroker(topics=topics, sasl={"alice": "secret", "bob": "secret"}) as running:
        yield running


@pytest.fixture
def kafka(broker: EmbeddedBroker) -> Iterator[EmbeddedBroker]:
    yield broker
    broker.remove_denial()


@pytest.fixture
def alice(kafka: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(kafka.bootstrap_servers) as client:
        log_in(client)
        yield client


@pytest.fixture
def bob(kafka: EmbeddedBroker) -> Iterator[RawClient]:
    with RawClient(kafka.bootstrap_servers) as client:
        log_in(client, "bob")
        yield client


def produced(client: RawClient, *topics: str, acks: int = -1) -> dict[str, ErrorCode]:
    data = [produce_values(topic, bytes(batch()))["topic_data"][0] for topic in topics]
    response = client.call(ApiKey.PRODUCE, 9, acks=acks, timeout=TIMEOUT, topic_data=data)
    return {topic.name: topic.partition_responses[0].error_code for topic in response.responses}


def commit(client: RawClient, group: str, *topics: str) -> None:
    partition = {"partition_index": 0, "committed_offset": 3}
    response = client.call(
        ApiKey.OFFSET_COMMIT,
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[{"name": topic, "partitions": [partition]} for topic in topics],
    )
    assert all(topic.partitions[0].error_code is NONE for topic in response.topics)


def described(client: RawClient, topics: list[str] | None, version: int = 9) -> dict[str, Any]:
    named = None if topics is None else [{"name": topic} for topic in topics]
    response = client.call(
        ApiKey.METADATA, version, topics=named, include_topic_authorized_operations=True
    )
    return {topic.name: topic for topic in response.topics}


class TestTopics:
    def test_denied_user_cannot_produce(
        self, kafka: EmbeddedBroker, alice: RawClient, bob: RawClient
    ) -> None:
        kafka.deny("alice", "Write", topic="shut")
        assert produced(alice, "open", "shut") == {"open": NONE, "shut": TOPIC}
        assert produced(bob, "shut") == {"shut": NONE}

    def test_produce_by_id(self, kafka: EmbeddedBroker, alice: RawClient) -> None:
        kafka.deny("alice", "Write", topic="shut")
        topic_id = described(alice, ["shut"], 12)["shut"].topic_id
        data = {"topic_id": topic_id, "partition_data": [{"index": 0, "records": bytes(batch())}]}
        response = alice.call(ApiKey.PRODUCE, 13, acks=-1, timeout=TIMEOUT, topic_data=[data])
        assert response.responses[0].topic_id == topic_id
        assert response.responses[0].partition_responses[0].error_code is TOPIC

    def test_produce_without_acks_ends_the_connection(
        self, kafka: EmbeddedBroker, alice: RawClient
    ) -> None:
        kafka.deny("alice", "Write", topic="shut")
        alice.send(ApiKey.PRODUCE, 9, **produce_values("shut", bytes(batch()), acks=0))
        assert alice.closed()

    def test_hidden_topic_by_id(
        self, kafka: EmbeddedBroker, alice: RawClient, bob: RawClient
    ) -> None:
        kafka.deny("alice", "Describe", topic="shut")
        topic_id = described(bob, ["shut"], 12)["shut"].topic_id
        response = alice.call(ApiKey.METADATA, 12, topics=[{"topic_id": topic_id, "name": None}])
        assert [(topic.error_code, topic.name, topic.topic_id) for topic in response.topics] == [
            (TOPIC, None, topic_id)
        ]

    def test_denied_topic_is_not_deleted(
        self, kafka: EmbeddedBroker, alice: RawClient, bob: RawClient
    ) -> None:
        create(bob, "kept")
        create(bob, "gone")
        kafka.deny("alice", "Delete", topic="kept")
        response = alice.call(
            ApiKey.DELETE_TOPICS, 5, topic_names=["gone", "kept"], timeout=TIMEOUT
        )
        assert {topic.name: topic.error_code for topic in response.responses} == {
            "gone": NONE,
            "kept": TOPIC,
        }
        assert {"kept"} == described(bob, None).keys() & {"kept", "gone"}


class TestProducers:
    def test_denied_transactional_id_is_rejected_by_every_api(
        self, kafka: EmbeddedBroker, alice: RawClient
    ) -> None:
        kafka.deny("alice", "Write", transactional_id="job-*")
        values: dict[str, Any] = {"transactional_id": "job-1", "transaction_timeout": TIMEOUT}
        assert alice.call(ApiKey.INIT_PRODUCER_ID, 4, **values).error_code is TRANSACTION
        values["transactional_id"] = "other"
        assert alice.call(ApiKey.INIT_PRODUCER_ID, 4, **values).error_code is NONE
        about = {"transactional_id": "job-1", "producer_id": 1, "producer_epoch": 0}
        assert alice.call(ApiKey.END_TXN, 3, committed=True, **about).error_code is TRANSACTION
        data = produce_values("open", bytes(batch()))
        response = alice.call(ApiKey.PRODUCE, 9, transactional_id="job-1", **data)
        assert response.responses[0].partition_responses[0].error_code is TRANSACTION

    def test_partitions_of_a_transaction(self, kafka: EmbeddedBroker, alice: RawClient) -> None:
        kafka.deny("alice", "Write", topic="shut")
        topics = [{"name": name, "partitions": [0]} for name in ("open", "shut")]
        response = alice.call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            v3_and_below_transactional_id="job-1",
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=topics,
        )
        results = response.results_by_topic_v3_and_below
        assert {
            topic.name: topic.results_by_partition[0].partition_error_code for topic in results
        } == {
            "open": ErrorCode.operation_not_attempted,
            "shut": TOPIC,
        }


class TestGroups:
    def test_offsets_of_hidden_topics(
        self, kafka: EmbeddedBroker, alice: RawClient, bob: RawClient
    ) -> None:
        commit(bob, "readers", "open", "shut")
        kafka.deny("alice", "Describe", topic="shut")
        requested = [
            {"group_id": "readers", "topics": [{"name": "shut", "partition_indexes": [0]}]}
        ]
        response = alice.call(ApiKey.OFFSET_FETCH, 8, groups=requested)
        assert response.groups[0].topics[0].partitions[0].error_code is TOPIC
        response = alice.call(
            ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": "readers", "topics": None}]
        )
        assert [topic.name for topic in response.groups[0].topics] == ["open"]

    def test_hidden_groups_are_not_listed(
        self, kafka: EmbeddedBroker, alice: RawClient, bob: RawClient
    ) -> None:
        commit(bob, "seen", "open")
        commit(bob, "hidden", "open")
        kafka.deny("alice", "Describe", group="hidden")
        groups = {group.group_id for group in alice.call(ApiKey.LIST_GROUPS, 3).groups}
        assert groups & {"seen", "hidden"} == {"seen"}


def test_invalid_deny_rules(kafka: EmbeddedBroker) -> None:
    with pytest.raises(ConfigError, match="unknown operation Wriet"):
        kafka.deny("alice", "Wriet", topic="x")
    with pytest.raises(ConfigError, match="one resource"):
        kafka.deny("alice", "Write", topic="x", group="y")


def test_user_of_a_client_certificate(tmp_path: Path) -> None:
    with EmbeddedBroker(topics={"t": 1}, tls=True, client_certificates="required") as broker:
        broker.deny("CN=alice", "Write", topic="t")
        outcome: list[Any] = []
        for name in ("alice", "bob"):
            certificate = broker.client_certificate(name)
            producer = Producer(
                {
                    "bootstrap.servers": broker.bootstrap_servers,
                    "security.protocol": "SSL",
                    "ssl.ca.pem": broker.ca_certificate,
                    "ssl.certificate.pem": certificate.certificate,
                    "ssl.key.pem": certificate.key,
                }
            )
            producer.produce("t", b"x", on_delivery=lambda error, _: outcome.append(error))
            producer.flush(60)
        assert outcome[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert outcome[1] is None


def test_errors_of_librdkafka(kafka: EmbeddedBroker) -> None:
    """Errors that librdkafka raises for denied operations."""
    options: dict[str, str | int | float | bool] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }
    kafka.deny("alice", "Create", topic="made")
    admin = AdminClient(options)
    created = admin.create_topics([NewTopic("made", 1, 1)])["made"]
    with pytest.raises(KafkaException) as caught:
        created.result(60)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    kafka.deny("alice", "Write", transactional_id="t")
    producer = Producer(options | {"transactional.id": "t", "log_level": 0})
    with pytest.raises(KafkaException) as caught:
        producer.init_transactions(20)
    assert caught.value.args[0].code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
