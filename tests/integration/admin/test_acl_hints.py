"""Missing ACLs: the command in the hint of an error adds the missing ACL."""

import shlex
from collections.abc import Callable, Iterator

import pytest

from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.logs.appender import TransactionalAppender
from spark_kafka_sink.kafka.logs.log_reader import LogReader
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User, password
from tools.support.java import run_tool

LOG, PREFIX = "decisions", "orders"
DRIVER = f"{PREFIX}/stream"


@pytest.fixture(scope="module")
def kafka() -> Iterator[SecuredKafka]:
    with SecuredKafka([Listener.SCRAM_ONLY]) as kafka:
        yield kafka


def connected_client(kafka: SecuredKafka, user: User, secret: str) -> BlockingClient:
    options = {
        "kafka.bootstrap.servers": kafka.servers(Listener.SCRAM_ONLY),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.pem": kafka.stores.placeholders["ca"],
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": user.value,
        "kafka.sasl.password": secret,
    }
    return BlockingClient(ProducerConfig.parse(options))


def execute_hint(kafka: SecuredKafka, error: AuthorizationError) -> None:
    """Execute the hint of an error as an administrator."""
    assert error.hint is not None
    words = shlex.split(error.hint[error.hint.index("kafka-acls") :])
    assert words[1] == "--bootstrap-server"
    assert words[3:5] == ["--command-config", "admin.properties"]
    tool = "org.apache.kafka.tools.AclCommand"
    run_tool(tool, "--bootstrap-server", kafka.bootstrap_servers, *words[5:])


def test_each_hint_contains_the_missing_acl(kafka: SecuredKafka) -> None:
    requested: list[str] = []
    with connected_client(kafka, User.ALICE, password(User.ALICE)) as client:
        admin, deadline = TransactionAdmin(client, PREFIX), client.deadline(120)
        topics, reader = TopicAdmin(client), LogReader(client, LOG)

        def granted(step: Callable[[], object]) -> object:
            """Execute a step and add missing ACLs, which take effect with a delay."""
            while True:
                try:
                    return step()
                except AuthorizationError as error:
                    if error.message not in requested:
                        requested.append(error.message)
                        execute_hint(kafka, error)
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
    assert requested == [
        f"Fetch was rejected: Read on topic {LOG} is denied to User:alice",
        f"DescribeTransactions was rejected: Describe on {prefixed} is denied to User:alice",
        f"InitProducerId was rejected: Write on {prefixed} is denied to User:alice",
    ]
