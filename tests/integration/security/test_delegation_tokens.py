"""A delegation token of the broker's (KIP-48) is a user's name and password for SCRAM."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.integration.support.producing import numbered, produce
from tests.support.security.doors import TRUST, Door, jaas, password_options
from tests.support.security.listeners import Listener
from tests.support.security.users import User
from tools.support.java import JavaError, run_tool
from tools.support.readers import count

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.security.secured import SecuredKafka

_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_WAIT_S = 60


def _written(door: Door, kafka: SecuredKafka, path: Path) -> Path:
    """A file of properties for Kafka's own tools."""
    settings = door.java_options(kafka).items()
    path.write_text("".join(f"{name}={value}\n" for name, value in settings))
    return path


def _token(kafka: SecuredKafka, folder: Path) -> tuple[str, str]:
    """Id and HMAC of a token that ALICE asks for with Kafka's own tool."""
    options = {**TRUST, **password_options("SCRAM-SHA-512", User.ALICE)}
    door = Door(name="tool", listener=Listener.SASL_SSL, options=options)
    printed = run_tool(
        *("org.apache.kafka.tools.DelegationTokenCommand", "--create"),
        *("--bootstrap-server", kafka.servers(Listener.SASL_SSL)),
        *("--max-life-time-period", "-1"),
        *("--command-config", str(_written(door, kafka, folder / "alice.properties"))),
    ).decode()
    token, hmac = printed.splitlines()[-1].split()[:2]
    return token, hmac


def _await_java(kafka: SecuredKafka, door: Door, path: Path) -> None:
    """Wait until a client of Java's enters.

    The controller answers before the brokers know of the token, which they read from the metadata
    log (Kafka's DelegationTokenPublisher).
    """
    arguments = ["--bootstrap-server", kafka.servers(door.listener), "--list"]
    arguments += ["--command-config", str(_written(door, kafka, path))]
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            run_tool("org.apache.kafka.tools.TopicCommand", *arguments)
        except JavaError as error:
            if "SaslAuthenticationException" not in str(error) or time.monotonic() > deadline:
                raise
        else:
            return


def test_a_token_enters(kafka: SecuredKafka, unique_topic: str, tmp_path: Path) -> None:
    topic = kafka.admin.create_topic(unique_topic, 3)
    token, hmac = _token(kafka, tmp_path)
    login = jaas(_SCRAM, username=token, password=hmac, tokenauth="true")
    options = {**TRUST, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
    door = Door(name="token", listener=Listener.SASL_SSL, options=options)
    _await_java(kafka, door, tmp_path / "token.properties")
    chunk = numbered(topic, 0, 300, 3)
    produce(kafka.servers(door.listener), chunk, **door.java_options(kafka))
    assert count(kafka.bootstrap_servers, topic) == 300
