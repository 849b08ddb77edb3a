"""Who may do what with which resource: all may do everything, but for denials.

As Kafka's ACLs that all users are allowed everything by, and some are denied something: a denial
always wins. Where either of two rights is enough to Kafka (to create a topic: Create on it or on
the cluster), a denial of one is enough here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from spark_kafka_sink.common.errors import ConfigError

ANYBODY: Final = "*"
CLUSTER_NAME: Final = "kafka-cluster"
"""Kafka's name of the one resource of the type Cluster."""
_USER: Final = "User:"


class Operation(IntEnum):
    """Kafka's AclOperation with its codes; the bit fields of KIP-430 count by them."""

    ALL = 2
    READ = 3
    WRITE = 4
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
        """As Kafka's tools write it, such as IdempotentWrite."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def parse(cls, text: str) -> Operation:
        """Read Write, write, IdempotentWrite or IDEMPOTENT_WRITE.

        Raises:
            ConfigError: there is no such operation.
        """
        wanted = text.replace("_", "").upper()
        for one in cls:
            if one.name.replace("_", "") == wanted:
                return one
        raise ConfigError(
            f"there is no operation {text}", hint=f"There are {', '.join(o.label for o in cls)}"
        )


class ResourceType(StrEnum):
    """Kafka's ResourceType."""

    TOPIC = "Topic"
    GROUP = "Group"
    CLUSTER = "Cluster"
    TRANSACTIONAL_ID = "TransactionalId"


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """What a user may not do.

    Args:
        user: a principal's name without its type, or "*" for anybody.
        operation: ALL for every one.
        type: of the resource.
        name: of the resource; "*" for all of the type, "x*" for those that begin with x.
    """

    user: str
    operation: Operation
    type: ResourceType
    name: str

    def covers(self, user: str, operation: Operation, name: str) -> bool:
        """Whether it is about this; the type of the resource is asked elsewhere."""
        if self.user not in {ANYBODY, user} or self.operation not in {Operation.ALL, operation}:
            return False
        if self.name.endswith("*"):
            return name.startswith(self.name[:-1])
        return name == self.name

    def __str__(self) -> str:
        resource = f"{self.type.value} {self.name}"
        return f"{_USER}{self.user} is denied {self.operation.label} on {resource}"


class Denials:
    """The denials of a broker; read by the loop's thread, changed by any: replaced as a whole."""

    __slots__ = ("_by_type",)

    def __init__(self) -> None:
        self._by_type: dict[ResourceType, tuple[Denial, ...]] = {}

    @property
    def is_active(self) -> bool:
        """Whether there are any."""
        return bool(self._by_type)

    def add(self, denial: Denial) -> None:
        """Deny something from now on."""
        known = self._by_type.get(denial.type, ())
        self._by_type = self._by_type | {denial.type: (*known, denial)}

    def remove(self, denial: Denial) -> None:
        """Take a denial back; harmless if there is no such."""
        left = {
            type_: tuple(one for one in known if one != denial)
            for type_, known in self._by_type.items()
        }
        self._by_type = {type_: known for type_, known in left.items() if known}

    def clear(self) -> None:
        """Take all denials back."""
        self._by_type = {}

    def allows(self, user: str, operation: Operation, type_: ResourceType, name: str) -> bool:
        """Whether nothing denies it."""
        known = self._by_type.get(type_, ())
        return not any(denial.covers(user, operation, name) for denial in known)

    def without_denied(self, operations: int, user: str, type_: ResourceType, name: str) -> int:
        """A bit field of operations (KIP-430) without those that are denied."""
        for operation in Operation:
            if operations & (1 << operation) and not self.allows(user, operation, type_, name):
                operations &= ~(1 << operation)
        return operations


def denial_of(
    user: str,
    operation: str,
    *,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
) -> Denial:
    """A denial in a user's words; on the cluster where no resource is named.

    Raises:
        ConfigError: more than one resource is named, or there is no such operation.
    """
    named = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
    }
    given = [(type_, name) for type_, name in named.items() if name is not None]
    if len(given) > 1:
        raise ConfigError("a denial is about one resource", hint="Make one for each")
    type_, name = given[0] if given else (ResourceType.CLUSTER, CLUSTER_NAME)
    parsed = Operation.parse(operation)
    return Denial(user=user.removeprefix(_USER), operation=parsed, type=type_, name=name)


def parse_denial(text: str) -> Denial:
    """Read alice:Write:topic=x, alice:Read:group=g, or alice:IdempotentWrite of the cluster.

    Raises:
        ConfigError: it is none of them.
    """
    user, _, rest = text.partition(":")
    operation, _, resource = rest.partition(":")
    kind, equals, name = resource.partition("=")
    known = {"topic", "group", "transactional_id"}
    if not (user and operation) or (resource and not (kind in known and equals and name)):
        raise ConfigError(
            f"{text} is no denial",
            hint="Write it as user:operation:topic=name, with group or transactional_id instead, "
            "or without a resource for the cluster",
        )
    return denial_of(user, operation, **({kind: name} if resource else {}))
