"""A user who may not: the error names the right that is missing, on what, and soon."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from spark_kafka_sink.admin.blocking_client import BlockingClient
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.common.errors import AuthorizationError, KafkaProdError
from spark_kafka_sink.config.model import SinkConfig
from spark_kafka_sink.diagnostics.finding import Severity
from spark_kafka_sink.diagnostics.transactional_ids import judge_transactional_ids
from tests.integration.support.producing import numbered, produce
from tests.integration.support.transactions import settings, transaction
from tests.support.security.doors import TRUST, Door, password_options
from tests.support.security.listeners import Listener
from tests.support.security.users import DENIED, User
from tools.support.readers import by_confluent, count

if TYPE_CHECKING:
    from tests.support.security.secured import SecuredKafka

SOON_S = 30


def write(kafka: SecuredKafka, user: User, topic: str, **options: str) -> None:
    """Ten rows, by SCRAM."""
    login = {**TRUST, **password_options("SCRAM-SHA-512", user)}
    door = Door(name=user, listener=Listener.SASL_SSL, options=login)
    chunk = numbered(topic, 0, 10, 1)
    produce(kafka.servers(door.listener), chunk, **door.java_options(kafka), **options)


def grant_write(kafka: SecuredKafka, user: User, transactional_id: str) -> None:
    """Let the user use a transactional id, and wait until the broker goes by that."""
    right = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        transactional_id,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    client = kafka.admin.client()
    for added in client.create_acls([right]).values():
        added.result(SOON_S)
    asked = AclBindingFilter(
        ResourceType.TRANSACTIONAL_ID,
        transactional_id,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    deadline = time.monotonic() + SOON_S
    while right not in client.describe_acls(asked).result(SOON_S):
        assert time.monotonic() < deadline, "the broker does not learn of the right"
        time.sleep(0.05)


def refused(kafka: SecuredKafka, user: User, topic: str, **options: str) -> KafkaProdError:
    """The error of a write that must not succeed."""
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        write(kafka, user, topic, **options)
    assert time.monotonic() - started < SOON_S
    assert count(kafka.bootstrap_servers, topic) == 0
    return caught.value


def test_a_topic_that_the_user_may_not_even_see(kafka: SecuredKafka, unique_topic: str) -> None:
    kafka.admin.create_topic(unique_topic)
    error = refused(kafka, User.MALLORY, unique_topic, enable_idempotence="false")
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
    assert unique_topic in str(error)
    assert "WRITE" in str(error).upper()


def test_a_topic_that_the_user_may_only_see(kafka: SecuredKafka, unique_topic: str) -> None:
    kafka.admin.create_topic(unique_topic)
    error = refused(kafka, User.BOB, unique_topic, enable_idempotence="false")
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
    assert unique_topic in str(error)
    assert "WRITE" in str(error).upper()


def test_a_user_who_may_not_write_idempotently(kafka: SecuredKafka, unique_topic: str) -> None:
    """Since 2.8 a right to write to any topic will do; BOB has none."""
    kafka.admin.create_topic(unique_topic)
    error = refused(kafka, User.BOB, unique_topic)
    assert isinstance(error, AuthorizationError)
    assert "CLUSTER_AUTHORIZATION_FAILED" in str(error)
    assert "IdempotentWrite" in str(error)


def test_a_topic_that_is_denied(kafka: SecuredKafka, unique_topic: str) -> None:
    denied = f"{DENIED}{unique_topic}"
    for topic in (unique_topic, denied):
        kafka.admin.create_topic(topic)
    error = refused(kafka, User.CAROL, denied)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
    assert denied in str(error)
    write(kafka, User.CAROL, unique_topic)
    assert len(by_confluent(kafka.bootstrap_servers, unique_topic)) == 10


def test_a_user_without_idempotent_write_on_the_cluster_who_may_write(
    kafka: SecuredKafka, unique_topic: str
) -> None:
    kafka.admin.create_topic(unique_topic)
    write(kafka, User.CAROL, unique_topic)
    assert len(by_confluent(kafka.bootstrap_servers, unique_topic)) == 10


def test_a_user_without_a_right_to_transactions(kafka: SecuredKafka, unique_topic: str) -> None:
    """The right that the error names is all that is missing."""
    kafka.admin.create_topic(unique_topic)
    wanted = settings()
    login = {**TRUST, **password_options("SCRAM-SHA-512", User.CAROL)}
    door = Door(name=User.CAROL, listener=Listener.SASL_SSL, options=login)
    servers, options = kafka.servers(door.listener), door.java_options(kafka)
    began = time.monotonic()
    with transaction(servers, wanted, None, **options) as producer:
        producer.append(numbered(unique_topic, 0, 10, 1))
        with pytest.raises(AuthorizationError, match="TRANSACTIONAL_ID_AUTHORIZATION") as caught:
            producer.flush()
    assert time.monotonic() - began < SOON_S
    right = f"--operation Write --transactional-id {wanted.transactional_id}"
    assert right in str(caught.value)
    assert f"--allow-principal User:{User.CAROL}" in str(caught.value)
    grant_write(kafka, User.CAROL, wanted.transactional_id)
    with transaction(servers, wanted, None, **options) as producer:
        producer.append(numbered(unique_topic, 0, 10, 1))
        producer.flush()
        assert producer.transaction is not None
        assert producer.abort_transaction(SOON_S)


def test_what_preflight_tells_of_transactional_ids(kafka: SecuredKafka) -> None:
    login = {**TRUST, **password_options("SCRAM-SHA-512", User.CAROL)}
    door = Door(name=User.CAROL, listener=Listener.SASL_SSL, options=login)
    prefix = f"preflight-{uuid4().hex}"
    options = {f"kafka.{name}": value for name, value in door.java_options(kafka).items()}
    options |= {"kafka.bootstrap.servers": kafka.servers(door.listener), "topic": "t"}
    options |= {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": prefix}
    config = SinkConfig.parse(options)
    with BlockingClient(config.producer) as client:
        (denied,) = judge_transactional_ids(client, config, SOON_S)
        assert denied.kafka_error == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        grant_write(kafka, User.CAROL, f"{prefix}/kafkaprod-doctor")
        (allowed,) = judge_transactional_ids(client, config, SOON_S)
        left = TransactionAdmin(client).describe(
            [f"{prefix}/kafkaprod-doctor"], client.deadline(SOON_S)
        )
    assert allowed.severity is Severity.OK
    assert left == {}
