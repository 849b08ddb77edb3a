"""Log in with a delegation token (KIP-48): a user name and password for SCRAM."""

import time
from pathlib import Path

from tests.support.producer_writes import numbered, produce
from tests.support.security.client_configs import TRUST, ClientConfig, jaas, password_options
from tests.support.security.listeners import Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User
from tools.support.java import JavaError, run_tool
from tools.support.readers import count

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
WAIT_S = 60


def write_properties(client: ClientConfig, kafka: SecuredKafka, path: Path) -> Path:
    """Write a properties file for Kafka's command-line tools."""
    settings = client.java_options(kafka).items()
    path.write_text("".join(f"{name}={value}\n" for name, value in settings))
    return path


def create_token(kafka: SecuredKafka, folder: Path) -> tuple[str, str]:
    """Create a token for ALICE with Kafka's command-line tool and return its ID and HMAC."""
    options = {**TRUST, **password_options("SCRAM-SHA-512", User.ALICE)}
    client = ClientConfig("tool", Listener.SASL_SSL, options)
    printed = run_tool(
        *("org.apache.kafka.tools.DelegationTokenCommand", "--create"),
        *("--bootstrap-server", kafka.servers(Listener.SASL_SSL)),
        *("--max-life-time-period", "-1"),
        *("--command-config", str(write_properties(client, kafka, folder / "alice.properties"))),
    ).decode()
    token, hmac = printed.splitlines()[-1].split()[:2]
    return token, hmac


def await_java(kafka: SecuredKafka, client: ClientConfig, path: Path) -> None:
    """Wait until a Java client can log in.

    The controller responds before the brokers read the token from the metadata log (Kafka's
    DelegationTokenPublisher).
    """
    arguments = ["--bootstrap-server", kafka.servers(client.listener), "--list"]
    arguments += ["--command-config", str(write_properties(client, kafka, path))]
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            run_tool("org.apache.kafka.tools.TopicCommand", *arguments)
        except JavaError as error:
            if "SaslAuthenticationException" not in str(error) or time.monotonic() > deadline:
                raise
        else:
            return


def test_write_with_delegation_token(
    kafka: SecuredKafka, unique_topic: str, tmp_path: Path
) -> None:
    topic = kafka.admin.create_topic(unique_topic, 3)
    token, hmac = create_token(kafka, tmp_path)
    login = jaas(SCRAM, username=token, password=hmac, tokenauth="true")
    options = {**TRUST, "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
    client = ClientConfig("token", Listener.SASL_SSL, options)
    await_java(kafka, client, tmp_path / "token.properties")
    chunk = numbered(topic, 0, 300, 3)
    produce(kafka.servers(client.listener), chunk, **client.java_options(kafka))
    assert count(kafka.bootstrap_servers, topic) == 300
