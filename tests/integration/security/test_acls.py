"""Missing ACLs: writes fail quickly with an error that contains the operation and the resource."""

import time
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

from spark_kafka_sink.common.errors import AuthorizationError, KafkaProdError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.broker_checks import check_transactional_ids
from spark_kafka_sink.diagnostics.finding import Severity
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from tests.integration.support.transactions import settings, transaction
from tests.support.producer_writes import numbered, produce
from tests.support.security.client_configs import TRUST, ClientConfig, password_options
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import DENIED, User
from tests.support.waiting import wait_until
from tools.support.readers import by_confluent, count

FAILURE_LIMIT_S = 30


def write(kafka: SecuredKafka, user: User, topic: str, **options: str) -> None:
    """Write ten rows as `user`."""
    login = {**TRUST, **password_options("SCRAM-SHA-512", user)}
    client = ClientConfig(user, Listener.SASL_SSL, login)
    chunk = numbered(topic, 0, 10, 1)
    produce(kafka.servers(client.listener), chunk, **client.java_options(kafka), **options)


def grant_write(kafka: SecuredKafka, user: User, transactional_id: str) -> None:
    """Allow the user to write with a transactional id and wait until the ACL is effective."""
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
        added.result(FAILURE_LIMIT_S)
    requested = AclBindingFilter(
        ResourceType.TRANSACTIONAL_ID,
        transactional_id,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    wait_until(lambda: right in client.describe_acls(requested).result(FAILURE_LIMIT_S))


def failed_write(kafka: SecuredKafka, user: User, topic: str, **options: str) -> KafkaProdError:
    """Return the error of a write that must fail."""
    started = time.monotonic()
    with pytest.raises(KafkaProdError) as caught:
        write(kafka, user, topic, **options)
    assert time.monotonic() - started < FAILURE_LIMIT_S
    assert count(kafka.bootstrap_servers, topic) == 0
    return caught.value


@pytest.mark.parametrize("user", [User.MALLORY, User.BOB], ids=["no ACLs", "only Describe"])
def test_topic_without_write_permission(kafka: SecuredKafka, unique_topic: str, user: User) -> None:
    kafka.admin.create_topic(unique_topic)
    error = failed_write(kafka, user, unique_topic, enable_idempotence="false")
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
    assert unique_topic in str(error)
    assert "WRITE" in str(error).upper()


def test_user_without_idempotent_write(kafka: SecuredKafka, unique_topic: str) -> None:
    """Since 2.8, Write on any topic is sufficient; BOB does not have it."""
    kafka.admin.create_topic(unique_topic)
    error = failed_write(kafka, User.BOB, unique_topic)
    assert isinstance(error, AuthorizationError)
    assert "CLUSTER_AUTHORIZATION_FAILED" in str(error)
    assert "IdempotentWrite" in str(error)


def test_denied_topic_is_named_with_its_command(kafka: SecuredKafka, unique_topic: str) -> None:
    denied = f"{DENIED}{unique_topic}"
    for topic in (unique_topic, denied):
        kafka.admin.create_topic(topic)
    error = failed_write(kafka, User.CAROL, denied)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(error)
    assert denied in str(error)
    write(kafka, User.CAROL, unique_topic)
    assert len(by_confluent(kafka.bootstrap_servers, unique_topic)) == 10


def test_transactional_id_without_write_permission(kafka: SecuredKafka, unique_topic: str) -> None:
    """The ACL in the hint is sufficient."""
    kafka.admin.create_topic(unique_topic)
    expected = settings()
    login = {**TRUST, **password_options("SCRAM-SHA-512", User.CAROL)}
    client = ClientConfig(User.CAROL, Listener.SASL_SSL, login)
    servers, options = kafka.servers(client.listener), client.java_options(kafka)
    began = time.monotonic()
    with transaction(servers, expected, None, **options) as producer:
        producer.append(numbered(unique_topic, 0, 10, 1))
        with pytest.raises(AuthorizationError) as caught:
            producer.flush()
    assert caught.value.kafka_error == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert time.monotonic() - began < FAILURE_LIMIT_S
    acl = f"--operation Write --transactional-id {expected.transactional_id}"
    assert acl in str(caught.value)
    assert f"--allow-principal User:{User.CAROL}" in str(caught.value)
    grant_write(kafka, User.CAROL, expected.transactional_id)
    with transaction(servers, expected, None, **options) as producer:
        producer.append(numbered(unique_topic, 0, 10, 1))
        producer.flush()
        assert producer.flush_transaction() is not None
        assert producer.abort_transaction(FAILURE_LIMIT_S)


def test_preflight_checks_transactional_ids(kafka: SecuredKafka) -> None:
    login = {**TRUST, **password_options("SCRAM-SHA-512", User.CAROL)}
    client = ClientConfig(User.CAROL, Listener.SASL_SSL, login)
    prefix = f"preflight-{uuid4().hex}"
    options = {f"kafka.{name}": value for name, value in client.java_options(kafka).items()}
    options |= {"kafka.bootstrap.servers": kafka.servers(client.listener), "topic": "t"}
    options |= {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": prefix}
    config = SinkConfig.parse(options)
    with BlockingClient(config.producer) as admin:
        (denied,) = check_transactional_ids(admin, config, FAILURE_LIMIT_S)
        assert denied.kafka_error == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
        grant_write(kafka, User.CAROL, f"{prefix}/kafkaprod-doctor")
        (allowed,) = check_transactional_ids(admin, config, FAILURE_LIMIT_S)
        remaining = TransactionAdmin(admin).describe(
            [f"{prefix}/kafkaprod-doctor"], admin.deadline(FAILURE_LIMIT_S)
        )
    assert allowed.severity is Severity.OK
    assert remaining == {}
