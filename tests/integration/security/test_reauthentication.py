"""No loss and no duplicates under load with connections.max.reauth.ms of 3 s (KIP-368)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.integration.security.continuous_writer import (
    for_seconds,
    numbers,
    report_until,
    write_until,
)
from tests.support.readers import await_count
from tests.support.security.client_configs import (
    TRUST,
    ClientConfig,
    credentials_options,
    keytab_options,
    password_options,
)
from tests.support.security.listeners import REAUTH_MS, Listener
from tests.support.security.users import User

if TYPE_CHECKING:
    from spark_kafka_sink import DeliveryReport
    from tests.support.security.secured_kafka import SecuredKafka

LOGINS = {
    **{name: password_options(name, User.ALICE) for name in ("PLAIN", "SCRAM-SHA-256")},
    "SCRAM-SHA-512": password_options("SCRAM-SHA-512", User.ALICE),
    "OAUTHBEARER": credentials_options(User.ALICE),
    "GSSAPI": keytab_options(User.ALICE),
}
SESSIONS = 2.5
"""Duration of a write in authenticated sessions of the broker."""


def test_reauthentication_under_load(kafka: SecuredKafka, unique_topic: str) -> None:
    """All mechanisms write at the same time, each to its own topic."""
    topics = {name: f"{unique_topic}-{name}" for name in LOGINS}
    for topic in topics.values():
        kafka.admin.create_topic(topic, 3)

    def load(name: str) -> int:
        client = ClientConfig(
            name=name, listener=Listener.REAUTH, options={**TRUST, **LOGINS[name]}
        )
        over = for_seconds(SESSIONS * REAUTH_MS / 1000)
        return write_until(kafka, client, topics[name], over)

    with ThreadPoolExecutor(len(LOGINS)) as pool:
        written = dict(zip(LOGINS, pool.map(load, LOGINS), strict=True))
    for name, topic in topics.items():
        assert numbers(kafka, topic) == list(range(written[name])), name


WITHOUT_ACKS = {"acks": "0", "enable.idempotence": "false"}
UNCONFIRMED = {
    **{name: {**LOGINS[name], **WITHOUT_ACKS} for name in ("PLAIN", "SCRAM-SHA-512")},
    # The socket buffer is nearly always full, so a login must wait until all bytes are sent.
    "OAUTHBEARER": {**LOGINS["OAUTHBEARER"], **WITHOUT_ACKS, "send.buffer.bytes": "4096"},
}


def test_reauthentication_with_acks_0(kafka: SecuredKafka, unique_topic: str) -> None:
    """All records reported as sent are in the topic, as the broker has no failures."""
    topics = {name: f"{unique_topic}-{name}" for name in UNCONFIRMED}
    for topic in topics.values():
        kafka.admin.create_topic(topic, 3)

    def load(name: str) -> DeliveryReport:
        client = ClientConfig(
            name=name, listener=Listener.REAUTH, options={**TRUST, **UNCONFIRMED[name]}
        )
        over = for_seconds(SESSIONS * REAUTH_MS / 1000)
        return report_until(kafka, client, topics[name], over)

    with ThreadPoolExecutor(len(UNCONFIRMED)) as pool:
        reports = dict(zip(UNCONFIRMED, pool.map(load, UNCONFIRMED), strict=True))
    for name, report in reports.items():
        sent = sum(part.sent for part in report.partitions)
        assert (sent, report.persisted, report.errors) == (report.records, 0, ()), name
        await_count(kafka.bootstrap_servers, topics[name], sent)
        assert numbers(kafka, topics[name]) == list(range(sent)), name


def test_oauth_token_is_reused(kafka: SecuredKafka, topic: str) -> None:
    """The process reuses a token until it expires."""
    options = {**TRUST, **credentials_options(User.CAROL)}
    client = ClientConfig(name="many", listener=Listener.SASL_SSL, options=options)
    written = [write_until(kafka, client, topic, for_seconds(0.1)) for _ in range(3)]
    assert all(written)
    assert kafka.issuer.token_requests.tokens.count(User.CAROL) == 1
    assert len(numbers(kafka, topic)) == sum(written)
