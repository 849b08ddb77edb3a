"""Several users in one worker process: nobody gets a connection that somebody else logged in on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.config.model import ProducerConfig
from spark_kafka_sink.producer.session import borrow_session, discard_session, give_back_session
from spark_kafka_sink.report.task_report import TaskInfo
from tests.integration.support.producing import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_kafka_sink.client.client import Client

USERS = {"alice": "of-alice", "bob": "of-bob"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tls=True, sasl=USERS, topics={"t": 1}) as kafka:
        yield kafka


def task(options: dict[str, str]) -> Client:
    """Write a row as one Spark task does; the client that did it."""
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
def test_each_user_writes_on_connections_of_its_own(
    secured: EmbeddedBroker, mechanism: str
) -> None:
    alice, bob = (secured.client_options(user, mechanism=mechanism) for user in USERS)
    of_alice, of_bob = task(alice), task(bob)
    assert of_alice is not of_bob
    assert task(alice) is of_alice
    assert task(bob) is of_bob


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_does_not_get_in_after_the_right_one(
    secured: EmbeddedBroker, mechanism: str
) -> None:
    right = secured.client_options("alice", mechanism=mechanism)
    task(right)
    wrong = {name: value.replace("of-alice", "of-mallory") for name, value in right.items()}
    with pytest.raises(AuthenticationError) as caught:
        task(wrong)
    assert "of-mallory" not in str(caught.value)
    task(right)


def test_a_password_file_with_another_users_login_is_another_login(
    secured: EmbeddedBroker, tmp_path: Path
) -> None:
    file = tmp_path / "jaas.conf"
    jaas = "kafka.sasl.jaas.config"
    options = secured.client_options("alice") | {jaas: f"file:{file}"}
    file.write_text(secured.client_options("alice")[jaas])
    first = task(options)
    assert task(options) is first
    file.write_text(secured.client_options("alice")[jaas].replace("of-alice", "of-mallory"))
    with pytest.raises(AuthenticationError):
        task(options)
    file.write_text(secured.client_options("bob")[jaas])
    assert task(options) is not first
    assert first.is_dead
