"""Admin clients of Java, confluent-kafka and kafka-python on three nodes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient
from kafka import KafkaAdminClient
from kafka.structs import TopicPartition as KafkaPythonPartition

from spark_kafka_sink import EmbeddedBroker
from tests.support.waiting import wait_until
from tools.support.java import run_tool

TOOLS = "org.apache.kafka.tools"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
REASSIGN = f"{TOOLS}.reassign.ReassignPartitionsCommand"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(nodes=3, topics={"t": 2}, replication_factor=2) as broker:
        yield broker


@pytest.fixture
def group(kafka: EmbeddedBroker) -> str:
    """Create an empty group with committed offsets."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for index in range(2):
        producer.produce("t", b"v", partition=index)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"})
    consumer.commit(
        offsets=[TopicPartition("t", 0, 1), TopicPartition("t", 1, 1)], asynchronous=False
    )
    consumer.close()
    return "g"


def tool(main: str, kafka: EmbeddedBroker, *arguments: str) -> str:
    return run_tool(main, "--bootstrap-server", kafka.bootstrap_servers, *arguments).decode()


class TestJava:
    def test_reassignment_is_executed_verified_and_no_longer_listed(
        self, kafka: EmbeddedBroker, tmp_path: Path
    ) -> None:
        plan = tmp_path / "plan.json"
        moved = {"topic": "t", "partition": 0, "replicas": [3, 2]}
        plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
        arguments = ("--reassignment-json-file", str(plan))
        output = tool(REASSIGN, kafka, "--execute", *arguments)
        assert "Successfully started partition reassignment for t-0" in output
        wait_until(lambda: kafka.partition_state("t", 0).replicas == (3, 2))
        output = tool(REASSIGN, kafka, "--verify", *arguments)
        assert "Reassignment of partition t-0 is completed" in output
        assert "No partition reassignments found" in tool(REASSIGN, kafka, "--list")

    def test_election_returns_a_moved_leader(self, kafka: EmbeddedBroker) -> None:
        kafka.move_leader("t", 0, 2)
        arguments = ("--election-type", "preferred", "--all-topic-partitions")
        output = tool(f"{TOOLS}.LeaderElectionCommand", kafka, *arguments)
        assert "Successfully completed leader election (PREFERRED) for partitions t-0" in output
        assert kafka.partition_state("t", 0).leader == 1

    def test_offsets_of_one_partition_are_deleted(self, kafka: EmbeddedBroker, group: str) -> None:
        arguments = ("--delete-offsets", "--group", group, "--topic", "t:0")
        assert "Successful" in tool(GROUPS, kafka, *arguments)
        output = tool(GROUPS, kafka, "--describe", "--group", group)
        assert [line.split()[2] for line in output.splitlines() if line.startswith(group)] == ["1"]

    def test_configs_of_brokers(self, kafka: EmbeddedBroker) -> None:
        change = ("--alter", "--entity-type", "brokers", "--entity-default")
        tool(CONFIGS, kafka, *change, "--add-config", "log.retention.ms=1234567")
        output = tool(CONFIGS, kafka, "--describe", "--entity-type", "brokers")
        assert "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=1234567" in output
        tool(CONFIGS, kafka, *change, "--delete-config", "log.retention.ms")
        output = tool(CONFIGS, kafka, "--describe", "--entity-type", "brokers")
        assert "1234567" not in output

    def test_configs_of_groups(self, kafka: EmbeddedBroker) -> None:
        change = ("--alter", "--entity-type", "groups", "--entity-name", "g")
        tool(CONFIGS, kafka, *change, "--add-config", "consumer.session.timeout.ms=50000")
        output = tool(CONFIGS, kafka, "--describe", "--entity-type", "groups")
        assert "consumer.session.timeout.ms=50000" in output

    def test_find_hanging_transactions(self, kafka: EmbeddedBroker) -> None:
        for node in "123":
            tool(f"{TOOLS}.TransactionsCommand", kafka, "find-hanging", "--broker-id", node)


class TestConfluent:
    @pytest.fixture
    def admin(self, kafka: EmbeddedBroker) -> AdminClient:
        return AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def test_authorized_operations(self, admin: AdminClient, group: str) -> None:
        cluster = admin.describe_cluster(include_authorized_operations=True).result(60)
        assert AclOperation.ALTER_CONFIGS in cluster.authorized_operations
        described = admin.describe_consumer_groups([group], include_authorized_operations=True)
        assert AclOperation.DELETE in described[group].result(60).authorized_operations


class TestKafkaPython:
    @pytest.fixture
    def admin(self, kafka: EmbeddedBroker) -> Iterator[KafkaAdminClient]:
        client = KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers.split(","))
        yield client
        client.close()

    def test_reassign_and_elect(self, kafka: EmbeddedBroker, admin: KafkaAdminClient) -> None:
        location = KafkaPythonPartition("t", 0)
        admin.alter_partition_reassignments({location: [2, 3]})
        wait_until(lambda: kafka.partition_state("t", 0).replicas == (2, 3))
        assert not admin.list_partition_reassignments()
        kafka.move_leader("t", 0, 3)
        admin.elect_leaders(0, {"t": [0]})
        assert kafka.partition_state("t", 0).leader == 2
