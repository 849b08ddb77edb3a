"""No loss and no duplicates under load with connections.max.reauth.ms of 3 s (KIP-368)."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from spark_kafka_sink import DeliveryReport
from tests.integration.security.continuous_writer import (
    for_seconds,
    report_until,
    write_until,
)
from tests.support.readers import await_count
from tests.support.security.client_configs import (
    ALICE_LOGINS,
    TRUST,
    ClientConfig,
    credentials_options,
)
from tests.support.security.listeners import REAUTH_MS, Listener
from tests.support.security.secured_kafka import SecuredKafka
from tests.support.security.users import User
from tools.support.readers import numbers_in

SESSIONS = 2.5
"""Duration of a write in authenticated sessions of the broker."""
WITHOUT_ACKS = {"acks": "0", "enable.idempotence": "false"}
LOGINS_WITHOUT_ACKS = {
    **{name: {**ALICE_LOGINS[name], **WITHOUT_ACKS} for name in ("PLAIN", "SCRAM-SHA-512")},
    # The socket buffer is nearly always full, so a login must wait until all bytes are sent.
    "OAUTHBEARER": {**ALICE_LOGINS["OAUTHBEARER"], **WITHOUT_ACKS, "send.buffer.bytes": "4096"},
}


def write_concurrently(
    kafka: SecuredKafka, prefix: str, logins: Mapping[str, Mapping[str, str]]
) -> dict[str, DeliveryReport]:
    """Write with all logins at the same time, each to its own topic; return reports by topic."""

    def write(name: str) -> DeliveryReport:
        options = {**TRUST, **logins[name]}
        client = ClientConfig(name, Listener.REAUTH, options)
        over = for_seconds(SESSIONS * REAUTH_MS / 1000)
        return report_until(kafka, client, kafka.admin.create_topic(f"{prefix}-{name}", 3), over)

    with ThreadPoolExecutor(len(logins)) as pool:
        reports = list(pool.map(write, logins))
    return {f"{prefix}-{name}": report for name, report in zip(logins, reports, strict=True)}


def test_reauthentication_under_load(kafka: SecuredKafka, unique_topic: str) -> None:
    for topic, report in write_concurrently(kafka, unique_topic, ALICE_LOGINS).items():
        assert numbers_in(kafka.bootstrap_servers, topic) == list(range(report.records)), topic


def test_reauthentication_with_acks_0(kafka: SecuredKafka, unique_topic: str) -> None:
    """All records reported as sent are in the topic, as the broker has no failures."""
    for topic, report in write_concurrently(kafka, unique_topic, LOGINS_WITHOUT_ACKS).items():
        sent = sum(part.sent for part in report.partitions)
        assert (sent, report.persisted, report.errors) == (report.records, 0, ()), topic
        await_count(kafka.bootstrap_servers, topic, sent)
        assert numbers_in(kafka.bootstrap_servers, topic) == list(range(sent)), topic


def test_oauth_token_is_reused(kafka: SecuredKafka, topic: str) -> None:
    """The process reuses a token until it expires."""
    options = {**TRUST, **credentials_options(User.CAROL)}
    client = ClientConfig("many", Listener.SASL_SSL, options)
    written = [write_until(kafka, client, topic, for_seconds(0.1)) for _ in range(3)]
    assert all(written)
    assert kafka.issuer.token_requests.tokens.count(User.CAROL) == 1
    assert len(numbers_in(kafka.bootstrap_servers, topic)) == sum(written)
