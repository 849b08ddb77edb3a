"""connections.max.reauth.ms of three seconds under load (KIP-368): nothing is lost or doubled."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.integration.security.load import for_seconds, numbers, report_until, write_until
from tests.support.readers import await_count
from tests.support.security.doors import (
    TRUST,
    Door,
    credentials_options,
    keytab_options,
    password_options,
)
from tests.support.security.listeners import REAUTH_MS, Listener
from tests.support.security.users import User

if TYPE_CHECKING:
    from spark_kafka_sink import DeliveryReport
    from tests.support.security.secured import SecuredKafka

LOGINS = {
    **{name: password_options(name, User.ALICE) for name in ("PLAIN", "SCRAM-SHA-256")},
    "SCRAM-SHA-512": password_options("SCRAM-SHA-512", User.ALICE),
    "OAUTHBEARER": credentials_options(User.ALICE),
    "GSSAPI": keytab_options(User.ALICE),
}
SESSIONS = 2.5
"""How many sessions of the broker's a load lasts."""


def test_sessions_end_under_load(kafka: SecuredKafka, unique_topic: str) -> None:
    """Each mechanism writes to a topic of its own, all at once."""
    topics = {name: f"{unique_topic}-{name}" for name in LOGINS}
    for topic in topics.values():
        kafka.admin.create_topic(topic, 3)

    def load(name: str) -> int:
        door = Door(name=name, listener=Listener.REAUTH, options={**TRUST, **LOGINS[name]})
        over = for_seconds(SESSIONS * REAUTH_MS / 1000)
        return write_until(kafka, door, topics[name], over)

    with ThreadPoolExecutor(len(LOGINS)) as pool:
        written = dict(zip(LOGINS, pool.map(load, LOGINS), strict=True))
    for name, topic in topics.items():
        assert numbers(kafka, topic) == list(range(written[name])), name


WITHOUT_ANSWERS = {"acks": "0", "enable.idempotence": "false"}
UNCONFIRMED = {
    **{name: {**LOGINS[name], **WITHOUT_ANSWERS} for name in ("PLAIN", "SCRAM-SHA-512")},
    # The socket is full most of the time: a login waits until the last byte has left.
    "OAUTHBEARER": {**LOGINS["OAUTHBEARER"], **WITHOUT_ANSWERS, "send.buffer.bytes": "4096"},
}


def test_sessions_end_while_nothing_is_confirmed(kafka: SecuredKafka, unique_topic: str) -> None:
    """acks=0: what the report calls sent is there, on a broker that is well."""
    topics = {name: f"{unique_topic}-{name}" for name in UNCONFIRMED}
    for topic in topics.values():
        kafka.admin.create_topic(topic, 3)

    def load(name: str) -> DeliveryReport:
        door = Door(name=name, listener=Listener.REAUTH, options={**TRUST, **UNCONFIRMED[name]})
        over = for_seconds(SESSIONS * REAUTH_MS / 1000)
        return report_until(kafka, door, topics[name], over)

    with ThreadPoolExecutor(len(UNCONFIRMED)) as pool:
        reports = dict(zip(UNCONFIRMED, pool.map(load, UNCONFIRMED), strict=True))
    for name, report in reports.items():
        sent = sum(part.sent for part in report.partitions)
        assert (sent, report.persisted, report.errors) == (report.records, 0, ()), name
        await_count(kafka.bootstrap_servers, topics[name], sent)
        assert numbers(kafka, topics[name]) == list(range(sent)), name


def test_one_token_serves_many_sessions(kafka: SecuredKafka, topic: str) -> None:
    """The process keeps the token for as long as it is good."""
    options = {**TRUST, **credentials_options(User.CAROL)}
    door = Door(name="many", listener=Listener.SASL_SSL, options=options)
    written = [write_until(kafka, door, topic, for_seconds(0.1)) for _ in range(3)]
    assert all(written)
    assert kafka.issuer.asked.tokens.count(User.CAROL) == 1
    assert len(numbers(kafka, topic)) == sum(written)
