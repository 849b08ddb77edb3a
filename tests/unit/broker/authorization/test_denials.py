"""Denied operations."""

import pytest

from spark_kafka_sink.broker.authorization.authorized_operations import authorized_operations
from spark_kafka_sink.broker.authorization.denials import Denials, denial_of, parse_denial
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType

WRITE, READ, TOPIC = AclOperation.WRITE, AclOperation.READ, ResourceType.TOPIC


@pytest.mark.parametrize(
    ("text", "user", "operation", "name", "allowed"),
    [
        ("alice:Write:topic=x", "alice", WRITE, "x", False),
        ("alice:write:topic=x", "alice", WRITE, "x", False),
        ("alice:Write:topic=x", "bob", WRITE, "x", True),
        ("alice:Write:topic=x", "alice", READ, "x", True),
        ("alice:Write:topic=x", "alice", WRITE, "xy", True),
        ("alice:Write:topic=x*", "alice", WRITE, "xy", False),
        ("alice:All:topic=x", "alice", READ, "x", False),
        ("*:All:topic=*", "bob", READ, "anything", False),
        ("alice:Write:group=x", "alice", WRITE, "x", True),
        ("alice:Write", "alice", WRITE, "x", True),
    ],
)
def test_scope_of_a_denial(
    text: str, user: str, operation: AclOperation, name: str, *, allowed: bool
) -> None:
    denials = Denials()
    denials.add(parse_denial(text))
    assert denials.is_active
    assert denials.allows(user, operation, TOPIC, name) is allowed


def test_denials_can_be_added_and_removed() -> None:
    denials = Denials()
    first, second = parse_denial("a:Write:topic=x"), parse_denial("a:Read:topic=x")
    denials.add(first)
    denials.add(second)
    denials.remove(first)
    denials.remove(first)
    assert denials.allows("a", WRITE, TOPIC, "x")
    assert not denials.allows("a", READ, TOPIC, "x")
    denials.remove(second)
    assert not denials.is_active


def test_bit_fields_lack_denied_operations() -> None:
    """Kafka's codes: Read 3, Write 4, Create 5 ... DescribeConfigs 10, AlterConfigs 11."""
    denials = Denials()
    denials.add(parse_denial("a:Write:topic=x"))
    assert authorized_operations(denials, "a", TOPIC, "x") == 0b1101_1110_1000
    assert authorized_operations(denials, "b", TOPIC, "x") == 0b1101_1111_1000


def test_denial_is_described_in_kafkas_words() -> None:
    denial = denial_of("User:alice", "IDEMPOTENT_WRITE")
    assert str(denial) == "User:alice is denied IdempotentWrite on Cluster kafka-cluster"


@pytest.mark.parametrize(
    "text", ["", "alice", "alice:", ":Write:topic=x", "a:Write:topic", "a:Write:topic=", "a:No"]
)
def test_invalid_texts_of_denials_are_rejected(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_denial(text)
