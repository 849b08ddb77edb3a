"""Deny rules: every user may perform all operations that no rule denies.

This corresponds to Kafka with DENY ACLs and an ACL that allows all operations to all users. A deny
rule always takes precedence. In Kafka, some requests require only one of two rights. For example,
creating a topic requires Create on the topic or on the cluster. In this broker, the request is
rejected if any of the two rights is denied.
"""

from __future__ import annotations

from dataclasses import dataclass

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType

_ANY_USER = "*"
CLUSTER_NAME = "kafka-cluster"
"""Kafka's name for the only resource of the type Cluster."""
_USER = "User:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """An operation that a user may not perform on a resource."""

    user: str
    """The name of a principal without its type, or "*" for all users."""
    operation: AclOperation
    """The operation, or ALL for every operation."""
    type: ResourceType
    name: str
    """The resource's name, "*" for all resources, or "x*" for names that start with x."""

    def covers(self, user: str, operation: AclOperation, type_: ResourceType, name: str) -> bool:
        """Return True if the rule applies."""
        if self.user not in {_ANY_USER, user} or self.operation not in {
            AclOperation.ALL,
            operation,
        }:
            return False
        if self.type is not type_:
            return False
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1])
        return name == self.name

    def __str__(self) -> str:
        resource = f"{self.type.label} {self.name}"
        return f"{_USER}{self.user} is denied {self.operation.label} on {resource}"


class Denials:
    """The deny rules of a broker. Thread-safe: each change replaces all rules atomically."""

    def __init__(self) -> None:
        self._rules: tuple[Denial, ...] = ()

    @property
    def is_active(self) -> bool:
        """True if there are any deny rules."""
        return bool(self._rules)

    def add(self, denial: Denial) -> None:
        """Add a deny rule, which takes effect immediately."""
        self._rules = (*self._rules, denial)

    def remove(self, denial: Denial) -> None:
        """Remove a deny rule. Has no effect if the rule does not exist."""
        self._rules = tuple(rule for rule in self._rules if rule != denial)

    def clear(self) -> None:
        """Remove all deny rules."""
        self._rules = ()

    def allows(self, user: str, operation: AclOperation, type_: ResourceType, name: str) -> bool:
        """Return True if no deny rule applies."""
        return not any(rule.covers(user, operation, type_, name) for rule in self._rules)


def denial_of(user: str, operation: str, **resources: str | None) -> Denial:
    """Create a deny rule. Without a resource, the rule applies to the cluster.

    `resources` contains the name of a topic, group or transactional_id.

    Raises:
        ConfigError: more than one resource is specified, or the operation is unknown.
    """
    named = [(kind, name) for kind, name in resources.items() if name is not None]
    if len(named) > 1:
        raise ConfigError(
            "a deny rule can have only one resource", hint="Add one deny rule per resource."
        )
    kind, name = named[0] if named else ("cluster", CLUSTER_NAME)
    parsed = AclOperation.parse(operation)
    type_ = ResourceType[kind.upper()]
    return Denial(user=user.removeprefix(_USER), operation=parsed, type=type_, name=name)


def parse_denial(text: str) -> Denial:
    """Parse a deny rule: alice:Write:topic=x, or alice:IdempotentWrite (on the cluster).

    Raises:
        ConfigError: the text is not a valid rule.
    """
    user, _, right = text.partition(":")
    operation, _, resource = right.partition(":")
    kind, equals, name = resource.partition("=")
    known = {"topic", "group", "transactional_id"}
    if not (user and operation) or (resource and not (kind in known and equals and name)):
        raise ConfigError(
            f"cannot parse the deny rule {text}",
            hint="Use user:operation for the cluster, or user:operation:topic=NAME, :group=NAME or "
            ":transactional_id=NAME.",
        )
    return denial_of(user, operation, **({kind: name} if resource else {}))
