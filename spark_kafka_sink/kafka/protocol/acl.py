"""Kafka's AclOperation and ResourceType, which client and broker share."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from spark_kafka_sink.common.errors import ConfigError

NO_OPERATIONS = -(2**31)
"""Authorized operations (KIP-430) that were not requested, or that the broker does not support."""


class AclOperation(IntEnum):
    """Operations with their codes, which are also the bit numbers in KIP-430's bit fields."""

    ALL = 2
    READ = 3
    """Read from a topic. Implies Describe."""
    WRITE = 4
    """Write to a topic, or use a transactional id. Implies Describe."""
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12

    @property
    def label(self) -> str:
        """The operation's name in Kafka's tools, such as IdempotentWrite."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def parse(cls, text: str) -> AclOperation:
        """Parse an operation's name, such as Write, write, IdempotentWrite or IDEMPOTENT_WRITE.

        Raises:
            ConfigError: the operation is unknown.
        """
        joined_name = text.replace("_", "").upper()
        for member in cls:
            if member.name.replace("_", "") == joined_name:
                return member
        raise ConfigError(
            f"unknown operation {text}",
            hint=f"Operations: {', '.join(known.label for known in cls)}.",
        )


class ResourceType(StrEnum):
    """Types of the resources that an ACL protects. Values are the option names of kafka-acls."""

    TOPIC = "topic"
    GROUP = "group"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"

    @property
    def label(self) -> str:
        """The type's name in Kafka's tools, such as TransactionalId."""
        return self.value.title().replace("-", "")
