"""Multiple users in one worker process do not share authenticated connections."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.client.client import Client
from spark_kafka_sink.producer.session_pool import (
    borrow_session,
    discard_session,
    give_back_session,
)
from spark_kafka_sink.report.task_report import TaskInfo
from tests.integration.support.producer_writes import rows

USERS = {"alice": "of-alice", "bob": "of-bob"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tls=True, sasl=USERS, topics={"t": 1}) as kafka:
        yield kafka


def write_task(options: dict[str, str]) -> Client:
    """Write a row like one Spark task and return its client."""
    session = borrow_session(ProducerConfig.parse(options))
    try:
        session.append(rows("t", [b"a"]))
        session.flush()
    except BaseException:
        discard_session(session)
        raise
    assert session.report(TaskInfo()).persisted == 1
    give_back_session(session)
    return session.client


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_users_do_not_share_connections(secured: EmbeddedBroker, mechanism: str) -> None:
    alice, bob = (secured.client_options(user, mechanism=mechanism) for user in USERS)
    of_alice, of_bob = write_task(alice), write_task(bob)
    assert of_alice is not of_bob
    assert write_task(alice) is of_alice
    assert write_task(bob) is of_bob


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_password_after_a_valid_login(secured: EmbeddedBroker, mechanism: str) -> None:
    right = secured.client_options("alice", mechanism=mechanism)
    write_task(right)
    wrong = {name: value.replace("of-alice", "of-mallory") for name, value in right.items()}
    with pytest.raises(AuthenticationError) as caught:
        write_task(wrong)
    assert "of-mallory" not in str(caught.value)
    write_task(right)


def test_password_file_is_part_of_the_login(secured: EmbeddedBroker, tmp_path: Path) -> None:
    file = tmp_path / "jaas.conf"
    jaas = "kafka.sasl.jaas.config"
    options = secured.client_options("alice") | {jaas: f"file:{file}"}
    file.write_text(secured.client_options("alice")[jaas])
    first = write_task(options)
    assert write_task(options) is first
    file.write_text(secured.client_options("alice")[jaas].replace("of-alice", "of-mallory"))
    with pytest.raises(AuthenticationError):
        write_task(options)
    file.write_text(secured.client_options("bob")[jaas])
    assert write_task(options) is not first
    assert first.is_dead
