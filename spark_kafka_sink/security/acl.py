"""Denied operations, the principal they apply to, and the command that grants them.

A right that a broker denies: its name, and how it is granted.

Source: Kafka's ``AclOperation``, ``ResourceType``, ``AclCommand``; Amazon's actions of MSK for its
IAM mechanism.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.model import KerberosLogin, Mechanism, PasswordLogin
from spark_kafka_sink.security.credentials import resolved_login

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.model import Login, SaslConfig, SecurityConfig


_ANONYMOUS = "ANONYMOUS"
_OF_CERTIFICATE = "<the subject of the client's certificate>"
_OF_TOKEN = "<the subject of the token>"  # noqa: S105
_OF_TOKEN_OWNER = "<the owner of the delegation token>"  # noqa: S105
_OF_TICKET = "<the owner of the Kerberos ticket>"
_OF_REFERENCE = "<the name of the login>"


def principal_of(security: SecurityConfig) -> str:
    """The principal as kafka-acls takes it, "User:" and a name; in angle brackets what it is of.

    A name that is itself `env:` or `file:` is not looked up, but one in a sasl.jaas.config that is.
    Source: ``DefaultKafkaPrincipalBuilder`` without mapping rules.
    """
    return f"User:{_name(security)}"


def _name(security: SecurityConfig) -> str:
    if security.sasl is not None:
        return _sasl_name(security.sasl)
    if security.tls is not None and security.tls.keystore is not None:
        return _OF_CERTIFICATE
    return _ANONYMOUS


def _sasl_name(sasl: SaslConfig) -> str:
    try:
        return _login_name(resolved_login(sasl))
    except ConfigError:  # whoever logs in says so
        return _OF_REFERENCE


def _login_name(login: Login) -> str:
    match login:
        case PasswordLogin(token_auth=True):
            return _OF_TOKEN_OWNER
        case PasswordLogin():
            return _OF_REFERENCE if login.username.is_reference else login.username.reveal()
        case KerberosLogin():
            return _short_name(login.principal) if login.principal else _OF_TICKET
        case _:
            return _OF_TOKEN


def _short_name(principal: str) -> str:
    """What sasl.kerberos.principal.to.local.rules makes of it by default: the primary alone."""
    return principal.partition("@")[0].partition("/")[0]


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
