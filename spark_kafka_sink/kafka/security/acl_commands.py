"""The principal of a client, and the commands that grant denied operations.

Source: Kafka's ``AclOperation``, ``ResourceType`` and ``AclCommand``, and the IAM actions of Amazon
MSK for AWS_MSK_IAM.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.security_config import KerberosLogin, Mechanism, PasswordLogin
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.security.credentials import resolve_login

if TYPE_CHECKING:
    from spark_kafka_sink.config.client_config import ClientConfig
    from spark_kafka_sink.config.security.security_config import Login, SaslConfig, SecurityConfig


ANONYMOUS = "ANONYMOUS"
"""Kafka's user name for clients that are not authenticated."""
_OF_CERTIFICATE = "<the subject of the client's certificate>"
_OF_TOKEN = "<the subject of the token>"  # noqa: S105
_OF_TOKEN_OWNER = "<the owner of the delegation token>"  # noqa: S105
_OF_TICKET = "<the owner of the Kerberos ticket>"
_OF_REFERENCE = "<the name of the login>"
_IAM_ACTIONS = {
    (AclOperation.WRITE, ResourceType.TOPIC): ("DescribeTopic", "WriteData"),
    (AclOperation.READ, ResourceType.TOPIC): ("DescribeTopic", "ReadData"),
    (AclOperation.CREATE, ResourceType.TOPIC): ("CreateTopic",),
    (AclOperation.CREATE, ResourceType.CLUSTER): ("CreateTopic",),
    (AclOperation.DESCRIBE, ResourceType.TOPIC): ("DescribeTopic",),
    (AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC): ("DescribeTopicDynamicConfiguration",),
    (AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER): ("DescribeClusterDynamicConfiguration",),
    (AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER): ("WriteDataIdempotently",),
    (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID): (
        "DescribeTransactionalId",
        "AlterTransactionalId",
    ),
    (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID): ("DescribeTransactionalId",),
}
"""Actions of the service kafka-cluster."""


def principal_of(security: SecurityConfig) -> str:
    """Return the principal as used by kafka-acls: "User:" and a name.

    If the name is unknown, it is replaced by a description in angle brackets. A user name that is
    an `env:` or `file:` reference is not resolved. A sasl.jaas.config that is a reference is
    resolved.

    Source: ``DefaultKafkaPrincipalBuilder`` without mapping rules.
    """
    return f"User:{_principal_name(security)}"


def _principal_name(security: SecurityConfig) -> str:
    if security.sasl is not None:
        return _sasl_name(security.sasl)
    if security.tls is not None and security.tls.keystore is not None:
        return _OF_CERTIFICATE
    return ANONYMOUS


def _sasl_name(sasl: SaslConfig) -> str:
    try:
        return _login_name(resolve_login(sasl))
    except ConfigError:  # The login itself reports the error.
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
    """Return the primary, as Kafka's default for sasl.kerberos.principal.to.local.rules does."""
    return principal.partition("@")[0].partition("/")[0]


@dataclass(frozen=True, slots=True)
class Acl:
    """A permission: an operation on a resource."""

    operation: AclOperation
    resource: ResourceType
    name: str = ""
    """The topic or the transactional id; empty for the cluster."""
    prefixed: bool = False
    """True if the permission applies to all resources whose names start with `name`."""

    def __str__(self) -> str:
        return f"{self.operation.label} on {self.on}"

    @property
    def on(self) -> str:
        """The resource's description for use within a sentence."""
        if self.resource is ResourceType.CLUSTER:
            return "the cluster"
        kind = self.resource.value.replace("-", " ")
        prefix = f"every {kind} that starts with" if self.prefixed else kind
        return f"{prefix} {self.name}"


@dataclass(frozen=True, slots=True)
class AclCommandBuilder:
    """Builds the commands that grant permissions to a client."""

    security: SecurityConfig
    server: str
    """A bootstrap server."""

    @classmethod
    def of(cls, config: ClientConfig) -> AclCommandBuilder:
        """Return the builder for the principal of this configuration."""
        return cls(config.security, config.bootstrap_servers[0])

    @property
    def principal(self) -> str:
        """The principal; see `principal_of`."""
        return principal_of(self.security)

    def grant_hint(self, acl: Acl, resource: str | None = None) -> str:
        """Return an instruction to grant a permission, with the command to run.

        Args:
            acl: the permission.
            resource: description of the resource; `acl.on` by default.
        """
        if self._uses_iam:
            actions = _IAM_ACTIONS[acl.operation, acl.resource]
            allowed = " and ".join(f"kafka-cluster:{action}" for action in actions)
            return f"allow {allowed} on {acl.on} in the IAM policy of this identity"
        words = ["kafka-acls", "--bootstrap-server", self.server]
        words += ["--command-config", "admin.properties", "--add"]
        words += ["--allow-principal", self.principal, "--operation", acl.operation.label]
        words += [f"--{acl.resource.value}"] + ([acl.name] if acl.name else [])
        words += ["--resource-pattern-type", "prefixed"] if acl.prefixed else []
        command = shlex.join(words)
        return f"grant {acl.operation.label} on {resource or acl.on} to {self.principal}: {command}"

    @property
    def _uses_iam(self) -> bool:
        """True if permissions are granted by AWS IAM instead of Kafka's ACLs."""
        sasl = self.security.sasl
        return sasl is not None and sasl.mechanism is Mechanism.AWS_MSK_IAM
