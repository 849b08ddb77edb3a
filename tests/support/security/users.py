"""The users of the secured broker, with passwords and ACLs."""

from enum import StrEnum
from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.support.waiting import wait_until

_WAIT_S = 60
SCRAM_ITERATIONS = 4096
DENIED = "denied-"
"""Prefix of topics to which CAROL is denied access."""
_NO_FILTER: Any = None
_ANY = AclBindingFilter(
    ResourceType.ANY,
    _NO_FILTER,
    ResourcePatternType.ANY,
    _NO_FILTER,
    _NO_FILTER,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


class User(StrEnum):
    """Users; each has the same name with all SASL mechanisms and in a client certificate."""

    ALICE = "alice"
    """Can write to and create any topic."""
    BOB = "bob"
    """Can describe all topics but not write."""
    CAROL = "carol"
    """Can write to any topic except those with the prefix `DENIED`."""
    DAVE = "dave"
    """Can write to any topic; tests change the password."""
    ERIN = "erin"
    """Has only the ACLs that a test adds."""
    MALLORY = "mallory"
    """Has no ACLs."""


def password(user: str) -> str:
    """Return the password of a user."""
    return f"{user}-secret"


def add_user_acls(client: AdminClient) -> None:
    """Add the users' ACLs and wait until they are effective."""
    topics, cluster = ResourceType.TOPIC, ResourceType.BROKER
    bindings = [
        _allow(User.ALICE, topics, AclOperation.WRITE),
        _allow(User.ALICE, topics, AclOperation.CREATE),
        _allow(User.ALICE, topics, AclOperation.DESCRIBE),
        _allow(User.ALICE, cluster, AclOperation.IDEMPOTENT_WRITE),
        _allow(User.BOB, topics, AclOperation.DESCRIBE),
        _allow(User.CAROL, topics, AclOperation.WRITE),
        _allow(User.DAVE, topics, AclOperation.WRITE),
        AclBinding(
            topics,
            DENIED,
            ResourcePatternType.PREFIXED,
            f"User:{User.CAROL}",
            "*",
            AclOperation.WRITE,
            AclPermissionType.DENY,
        ),
    ]
    add_acls(client, bindings)


def add_acls(client: AdminClient, bindings: list[AclBinding]) -> None:
    """Add ACLs and wait until they are effective.

    The broker reads them from the metadata log after the controller has responded.
    """
    for added in client.create_acls(bindings).values():
        added.result(_WAIT_S)
    wait_until(lambda: not (set(bindings) - set(client.describe_acls(_ANY).result(_WAIT_S))))


def set_scram_password(client: AdminClient, user: str, secret: str) -> None:
    """Create a SCRAM user or change the password, for SHA-256 and SHA-512.

    It takes effect with a delay: use `confluent_client.await_login` to wait.
    """
    # Sequentially: Kafka rejects a request with both as a duplicate.
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(mechanism, SCRAM_ITERATIONS), secret.encode()
        )
        for changed in client.alter_user_scram_credentials([change]).values():
            changed.result(_WAIT_S)


def _allow(user: User, kind: ResourceType, operation: AclOperation) -> AclBinding:
    name = "kafka-cluster" if kind is ResourceType.BROKER else "*"
    return AclBinding(
        kind,
        name,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
