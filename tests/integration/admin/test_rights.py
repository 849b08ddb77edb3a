"""A right that is missing: the command that an error names is the one that helps."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.admin.appender import TransactionalAppender
from spark_kafka_sink.admin.blocking_client import BlockingClient
from spark_kafka_sink.admin.log_reader import LogReader
from spark_kafka_sink.admin.topic_admin import TopicAdmin
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.common.errors import AuthenticationError, AuthorizationError
from spark_kafka_sink.config.model import ProducerConfig
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User, password
from tools.support.java import run_tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOG, PREFIX = "decisions", "orders"
DRIVER = f"{PREFIX}/stream"


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka([Listener.SCRAM_ONLY]) as kafka:
        yield kafka


def client_of(kafka: SecuredKafka, user: User, secret: str) -> BlockingClient:
    options = {
        "kafka.bootstrap.servers": kafka.servers(Listener.SCRAM_ONLY),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.pem": kafka.stores.placeholders["ca"],
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": user.value,
        "kafka.sasl.password": secret,
    }
    return BlockingClient(ProducerConfig.parse(options))


def follow(kafka: SecuredKafka, error: AuthorizationError) -> None:
    """Do what the error's hint says, as an administrator."""
    assert error.hint is not None
    words = shlex.split(error.hint[error.hint.index("kafka-acls") :])
    assert words[1] == "--bootstrap-server"
    assert words[3:5] == ["--command-config", "admin.properties"]
    tool = "org.apache.kafka.tools.AclCommand"
    run_tool(tool, "--bootstrap-server", kafka.bootstrap_servers, *words[5:])


def test_each_error_names_the_right_that_lets_the_next_step_go_on(kafka: SecuredKafka) -> None:
    asked: list[str] = []
    with client_of(kafka, User.ALICE, password(User.ALICE)) as client:
        admin, deadline = TransactionAdmin(client, PREFIX), client.deadline(120)
        topics, reader = TopicAdmin(client), LogReader(client, LOG)

        def granted(step: Callable[[], object]) -> object:
            """Take a step, granting what is missing; brokers hear of it some time later."""
            while True:
                try:
                    return step()
                except AuthorizationError as error:
                    if error.message not in asked:
                        asked.append(error.message)
                        follow(kafka, error)
                    assert client.now() < deadline

        topics.create_compacted(LOG, None, {}, deadline)
        assert topics.broker_config("transaction.max.timeout.ms", deadline) is None
        assert not topics.create_compacted(LOG, None, {}, deadline)
        granted(lambda: reader.read(None, deadline))
        granted(lambda: admin.describe([DRIVER], deadline))

        def append() -> object:
            owner = admin.init_producer_id(DRIVER, 60_000, deadline)
            appender = TransactionalAppender(client, admin)
            return appender.append(owner, LOG, [(b"k", b"v")], deadline)

        granted(append)
        granted(lambda: admin.init_producer_id(DRIVER, 60_000, deadline))
        (record,) = reader.read(None, deadline).records
    assert (record.key, record.value) == (b"k", b"v")
    prefixed = f"every transactional id that starts with {PREFIX}"
    assert asked == [
        f"Fetch was rejected: Read on topic {LOG} is denied to User:alice",
        f"DescribeTransactions was rejected: Describe on {prefixed} is denied to User:alice",
        f"InitProducerId was rejected: Write on {prefixed} is denied to User:alice",
    ]


def test_a_wrong_password_is_told_at_once(kafka: SecuredKafka) -> None:
    with (
        client_of(kafka, User.ALICE, "wrong-secret") as client,
        pytest.raises(AuthenticationError, match="SCRAM-SHA-512") as caught,
    ):
        TransactionAdmin(client).list(None, client.deadline(60))
    assert "wrong-secret" not in str(caught.value)
