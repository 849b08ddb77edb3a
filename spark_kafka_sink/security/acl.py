"""A right that a broker denies: its name, and how it is granted.

Source: Kafka's ``AclOperation``, ``ResourceType``, ``AclCommand``; Amazon's actions of MSK for its
IAM mechanism.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from spark_kafka_sink.config.security.model import Mechanism
from spark_kafka_sink.security.principal import principal_of

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import SecurityConfig


class Operation(Enum):
    """Kafka's AclOperation, by the name that kafka-acls takes."""

    WRITE = "Write"
    """On a topic or a transactional id; it comes with Describe."""
    READ = "Read"
    """On a topic; it comes with Describe."""
    CREATE = "Create"
    DESCRIBE = "Describe"
    DESCRIBE_CONFIGS = "DescribeConfigs"
    IDEMPOTENT_WRITE = "IdempotentWrite"


class ResourceType(Enum):
    """Kafka's ResourceType, by the option of kafka-acls."""

    TOPIC = "topic"
    CLUSTER = "cluster"
    TRANSACTIONAL_ID = "transactional-id"


_IAM_ACTIONS = {
    (Operation.WRITE, ResourceType.TOPIC): "kafka-cluster:DescribeTopic and "
    "kafka-cluster:WriteData",
    (Operation.READ, ResourceType.TOPIC): "kafka-cluster:DescribeTopic and kafka-cluster:ReadData",
    (Operation.CREATE, ResourceType.TOPIC): "kafka-cluster:CreateTopic",
    (Operation.CREATE, ResourceType.CLUSTER): "kafka-cluster:CreateTopic",
    (Operation.DESCRIBE, ResourceType.TOPIC): "kafka-cluster:DescribeTopic",
    (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC): "kafka-cluster:"
    "DescribeTopicDynamicConfiguration",
    (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER): "kafka-cluster:"
    "DescribeClusterDynamicConfiguration",
    (Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER): "kafka-cluster:WriteDataIdempotently",
    (Operation.WRITE, ResourceType.TRANSACTIONAL_ID): "kafka-cluster:DescribeTransactionalId and "
    "kafka-cluster:AlterTransactionalId",
    (Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID): "kafka-cluster:DescribeTransactionalId",
}


@dataclass(frozen=True, slots=True)
class Acl:
    """One right; `name` is that of the topic or the transactional id, empty for the cluster.

    `prefixed`: it is needed for all resources whose names begin like that.
    """

    operation: Operation
    resource: ResourceType
    name: str = ""
    prefixed: bool = False

    def __str__(self) -> str:
        return f"{self.operation.value} on {self.on}"

    @property
    def on(self) -> str:
        """What it is on."""
        if self.resource is ResourceType.CLUSTER:
            return "the cluster"
        kind = self.resource.value.replace("-", " ")
        return (
            f"every {kind} that begins with {self.name}"
            if self.prefixed
            else (f"{kind} {self.name}")
        )


@dataclass(frozen=True, slots=True)
class AclGuide:
    """How rights are granted to whom the options log in; `server` is a bootstrap server."""

    security: SecurityConfig
    server: str

    @property
    def principal(self) -> str:
        """Whom the rights are for: "User:" and a name, or what it is of in angle brackets."""
        return principal_of(self.security)

    @property
    def _by_iam(self) -> bool:
        """Rights are AWS's and not Kafka's ACLs."""
        sasl = self.security.sasl
        return sasl is not None and sasl.mechanism is Mechanism.AWS_MSK_IAM

    def grant(self, acl: Acl, on: str | None = None) -> str:
        """An instruction to grant a right, with the command that does.

        Args:
            acl: the right.
            on: what it is on, in other words than the right's own.
        """
        if self._by_iam:
            actions = _IAM_ACTIONS[acl.operation, acl.resource]
            return f"allow {actions} on {acl.on} in the IAM policy of this identity"
        words = ["kafka-acls", "--bootstrap-server", self.server]
        words += ["--command-config", "admin.properties", "--add"]
        words += ["--allow-principal", self.principal, "--operation", acl.operation.value]
        words += [f"--{acl.resource.value}"] + ([acl.name] if acl.name else [])
        words += ["--resource-pattern-type", "prefixed"] if acl.prefixed else []
        command = shlex.join(words)
        return f"grant {acl.operation.value} on {on or acl.on} to {self.principal}: {command}"
