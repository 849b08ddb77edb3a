"""A response is lost and the topic configs change before the retry: compare log and report."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.dead_letters import DeadLetterPolicy, Tolerance
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_pool import discard_session
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import config, rows
from tests.support.waiting import wait_until
from tools.support.admin import Admin
from tools.support.readers import by_confluent

POSSIBLY, PERSISTED = DeliveryStatus.POSSIBLY_PERSISTED, DeliveryStatus.PERSISTED
HOUR_MS = 3_600_000
COUNT = 40


@dataclass(frozen=True)
class Rule:
    """A topic config that makes the topic reject records that it accepted before."""

    name: str
    value: str


RULES = (
    Rule("message.timestamp.before.max.ms", str(HOUR_MS)),
    Rule("cleanup.policy", "compact"),
    Rule("max.message.bytes", "600"),
)


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"t": 1, "dead": 1}) as broker:
        yield broker


def good_and_bad_rows() -> Rows:
    """Return rows; every other row has no key and is two hours old."""
    now = time.time_ns() // 1_000_000
    old = [number % 2 == 1 for number in range(COUNT)]
    return rows(
        "t",
        [b"%d" % number + b"." * 100 for number in range(COUNT)],
        keys=[None if aged else b"k" for aged in old],
        timestamps=[now - 2 * HOUR_MS * aged for aged in old],
        partitions=[0] * COUNT,
    )


def configure(kafka: EmbeddedBroker, rule: Rule) -> None:
    entry = ConfigEntry(rule.name, rule.value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    client = Admin(kafka.bootstrap_servers).client()
    client.incremental_alter_configs([resource])[resource].result(60)


def change_rule_after_append(kafka: EmbeddedBroker, rule: Rule) -> None:
    wait_until(lambda: sum(kafka.end_offsets("t")))
    configure(kafka, rule)


def write(session: ProducerSession) -> tuple[DeliveryReport, DeliveryError | None]:
    session.append(good_and_bad_rows())
    try:
        session.flush()
    except DeliveryError as error:
        return session.report(TaskAttempt()), error
    return session.report(TaskAttempt()), None


def new_session(kafka: EmbeddedBroker) -> ProducerSession:
    options = {"linger_ms": 0, "request_timeout_ms": 2_000, "retry_backoff_ms": 10}
    policy = DeadLetterPolicy(tolerance=Tolerance.ALL, dead_letter_topic="dead")
    client = ProducerClient(config(kafka.bootstrap_servers, options))
    return ProducerSession(client, settings=SessionSettings(dead_letters=policy))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_duplicates_and_report_lists_unknown_outcomes(kafka: EmbeddedBroker, rule: Rule) -> None:
    kafka.faults.add("produce:topic=t:lose-response:next=1")
    session = new_session(kafka)
    changing = threading.Thread(target=change_rule_after_append, args=(kafka, rule))
    changing.start()
    try:
        report, error = write(session)
    finally:
        changing.join()
        discard_session(session)

    values = [record.value for record in by_confluent(kafka.bootstrap_servers, "t")]
    assert len(values) == len(set(values)) == COUNT
    assert not by_confluent(kafka.bootstrap_servers, "dead")
    assert error is not None
    assert {status.status for status in error.statuses} == {POSSIBLY}
    assert sum(status.records for status in error.statuses) == COUNT
    (part,) = report.partitions
    assert (part.persisted, part.possibly_persisted, part.not_persisted) == (0, COUNT, 0)
    assert not report.poison


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_row_is_written_or_a_dead_letter(kafka: EmbeddedBroker, rule: Rule) -> None:
    configure(kafka, rule)
    session = new_session(kafka)
    try:
        report, error = write(session)
    finally:
        discard_session(session)
    assert error is None
    values = [record.value for record in by_confluent(kafka.bootstrap_servers, "t")]
    dead = [record.value for record in by_confluent(kafka.bootstrap_servers, "dead")]
    assert sorted(value or b"" for value in values + dead) == sorted(
        b"%d" % n + b"." * 100 for n in range(COUNT)
    )
    assert report.persisted == report.records == COUNT
    assert bool(dead) == (rule.name != "max.message.bytes")


@pytest.mark.parametrize("time_ms", [253_402_300_800_000, 2**62, -7])
def test_lost_response_with_any_timestamp(kafka: EmbeddedBroker, time_ms: int) -> None:
    """The response to the retry contains the timestamp of the batch."""
    configure(kafka, Rule("message.timestamp.after.max.ms", str(2**63 - 1)))
    kafka.faults.add("produce:topic=t:lose-response:next=1")
    session = new_session(kafka)
    values: list[bytes | None] = [b"%d" % number for number in range(COUNT)]
    try:
        session.append(rows("t", values, timestamps=[time_ms] * COUNT, partitions=[0] * COUNT))
        session.flush()
        report = session.report(TaskAttempt())
    finally:
        discard_session(session)
    (part,) = report.partitions
    assert (part.persisted, part.records, report.retries) == (COUNT, COUNT, 1)
    assert DeliveryReport.from_json(report.to_json()) == report
    assert [record.value for record in kafka.records("t")] == values
    (timestamp,) = {record.timestamp for record in kafka.records("t")}
    assert timestamp == (
        time_ms
        if time_ms > 0
        else datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    )
