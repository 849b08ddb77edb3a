"""Who may come, with which password, and what the broker allows them to do."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

_WAIT_S = 60
_LOOK_EVERY_S = 0.05
SCRAM_ITERATIONS = 4096
DENIED = "denied-"
"""Topics whose names begin so are denied to CAROL, whatever else she may."""


class User(StrEnum):
    """Their names are the same by every mechanism, a client certificate included."""

    ALICE = "alice"
    """May write and create any topic."""
    BOB = "bob"
    """May see every topic and write to none."""
    CAROL = "carol"
    """May write to any topic that is not denied."""
    DAVE = "dave"
    """As CAROL; tests give him other passwords."""
    ERIN = "erin"
    """May what a test allows."""
    MALLORY = "mallory"
    """May nothing."""


def password(user: str) -> str:
    """What proves that somebody is `user`."""
    return f"{user}-secret"


def grant(client: AdminClient) -> None:
    """Add the users' ACLs, and wait until the broker goes by them."""
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
    """Add ACLs, and wait until the broker goes by them.

    It reads them from the metadata log, after the controller has answered.
    """
    for added in client.create_acls(bindings).values():
        added.result(_WAIT_S)
    deadline = time.monotonic() + _WAIT_S
    while set(bindings) - set(client.describe_acls(_ANY).result(_WAIT_S)):
        if time.monotonic() > deadline:
            raise TimeoutError("the broker does not learn of the users' ACLs")
        time.sleep(_LOOK_EVERY_S)


def set_scram_password(client: AdminClient, user: str, secret: str) -> None:
    """Make the user, or give them another password, for both kinds of SCRAM.

    Brokers hear of it some time later: `entering.await_login` waits for that.
    """
    # One after the other: a request with both is refused, as if they were the same.
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        change = UserScramCredentialUpsertion(
            user, ScramCredentialInfo(mechanism, SCRAM_ITERATIONS), secret.encode()
        )
        for changed in client.alter_user_scram_credentials([change]).values():
            changed.result(_WAIT_S)


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
