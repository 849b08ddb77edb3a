"""Findings of the driver's preflight check on a broker."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from spark_kafka_sink.broker.embedded import EmbeddedBroker
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError, UnknownTopicError
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.broker_checks import connect
from spark_kafka_sink.diagnostics.doctor import Doctor
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.diagnostics.planned_write import PlannedWrite
from spark_kafka_sink.diagnostics.preflight import examine
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from tests.support.servers import closed_port, listening, never_respond


def findings_of(servers: str, *, has_key: bool = True, **options: str) -> list[Finding]:
    return findings_with(servers, options, has_key=has_key)


def findings_with(servers: str, options: dict[str, str], *, has_key: bool = True) -> list[Finding]:
    named = {name.replace("__", "."): value for name, value in options.items()}
    settings = {"kafka.bootstrap.servers": servers, "topic": "t", **named}
    return examine(PlannedWrite(config=SinkConfig.parse(settings), has_key=has_key))


def problems(findings: list[Finding]) -> list[tuple[CheckStep, Severity, bool]]:
    fine = {Severity.OK, Severity.NOTE}
    return [
        (finding.step, finding.severity, finding.is_local)
        for finding in findings
        if finding.severity not in fine
    ]


def test_problems_found_before_a_write() -> None:
    compacted = {"c": {"cleanup.policy": "compact"}}
    with EmbeddedBroker(topics={"t": 1, "c": 1}, topic_configs=compacted) as kafka:
        servers = kafka.bootstrap_servers
        assert problems(findings_of(servers)) == []
        assert problems(findings_of(f"{closed_port()},{servers}")) == []
        no_key = [(CheckStep.SETTINGS, Severity.ERROR, False)]
        assert problems(findings_of(servers, has_key=False, topic="c")) == no_key
        assert problems(findings_of(servers, topic="gone")) == [
            (CheckStep.TOPIC, Severity.ERROR, False)
        ]
        letters = {"errors__tolerance": "all", "errors__deadletterqueue__topic__name": "gone"}
        assert problems(findings_with(servers, letters)) == [
            (CheckStep.TOPIC, Severity.ERROR, False)
        ]


@pytest.mark.parametrize("dry_run", ["true", "false"])
@pytest.mark.parametrize("topic", [{"topic": "t"}, {}], ids=["named", "column"])
def test_missing_dead_letter_topic(topic: dict[str, str], dry_run: str) -> None:
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "gone"}
    with EmbeddedBroker(topics={"t": 1}) as kafka:
        named = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "dryRun": dry_run}
        write = PlannedWrite(config=SinkConfig.parse({**named, **letters, **topic}), has_key=True)
        for findings in (examine(write), list(Doctor(write=write).examine())):
            (missing,) = (finding for finding in findings if finding.severity is Severity.ERROR)
            assert missing.text.startswith("dead letter topic gone does not exist")
            assert ("topic.create" in (missing.hint or "")) is (dry_run == "false")


@pytest.mark.parametrize(
    ("topic", "similar"),
    [("evnets", ["events", "events-2"]), ("Events_2", ["events-2", "events"]), ("zzz", [])],
)
def test_similar_topics_are_suggested(topic: str, similar: list[str]) -> None:
    with EmbeddedBroker(topics={"events": 1, "events-2": 1, "orders": 1}) as kafka:
        (missing,) = findings_of(kafka.bootstrap_servers, topic=topic)
    start = f"Did you mean {' or '.join(similar)}? Otherwise" if similar else "Correct the name, or"
    assert (missing.hint or "").startswith(f"{start} create the topic: ")
    assert (missing.hint or "").endswith(f"--create --topic {topic}")


def test_topic_that_appears_late(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker(topics={"t": 1}) as kafka:

        def pause(*_: object) -> None:
            kafka.create_topic("late", 1)

        monkeypatch.setattr(BlockingClient, "pause", pause)
        assert problems(findings_of(kafka.bootstrap_servers, topic="late")) == []


@pytest.mark.parametrize("operation", ["Write", "Describe"])
def test_permissions_on_transactional_ids(operation: str) -> None:
    expected = {"deliveryGuarantee": "exactly-once", "transactionalIdPrefix": "x"}
    with EmbeddedBroker(topics={"t": 1}) as kafka:
        kafka.deny("*", operation, transactional_id="x/*")
        servers = kafka.bootstrap_servers
        other = findings_with(servers, {**expected, "transactionalIdPrefix": "y"})
        assert problems(other) == problems(findings_with(servers, {})) == []
        assert "starts with y/ is allowed" in other[-1].text
        (denied,) = (
            finding
            for finding in findings_with(servers, expected)
            if finding.severity is Severity.ERROR
        )
        assert denied.step is CheckStep.PERMISSIONS
        assert "--transactional-id x/ --resource-pattern-type prefixed" in (denied.hint or "")


def test_dry_run_creates_no_topic() -> None:
    expected = {"topic": "new", "topic__create": "true", "topic__partitions": "3", "dryRun": "true"}
    with EmbeddedBroker(topics={"t": 1}) as kafka:
        servers = kafka.bootstrap_servers
        assert problems(findings_with(servers, expected)) == []
        assert problems(findings_with(servers, {**expected, "preflight": "off"})) == []
        for options in ({"topic": "new", "dryRun": "true"}, {**expected, "topic__partitions": "0"}):
            (missing,) = findings_with(servers, options)
            assert missing.severity is Severity.ERROR
            assert "a dry run does not create it" in str(missing.error)
        with pytest.raises(UnknownTopicError):
            kafka.end_offsets("new")


def test_topic_is_created_once_with_its_options() -> None:
    expected = {
        "topic": "new",
        "topic__create": "true",
        "topic__partitions": "3",
        "topic__config__retention__ms": "60000",
    }
    off = {**expected, "preflight": "off"}
    with EmbeddedBroker(topics={"t": 1}) as kafka:
        servers = kafka.bootstrap_servers
        with ThreadPoolExecutor(2) as pool:  # two concurrent jobs
            jobs = [pool.submit(findings_with, servers, expected) for _ in range(2)]
            assert [problems(job.result(60)) for job in jobs] == [[], []]
        assert len(kafka.end_offsets("new")) == 3
        assert problems(findings_with(servers, off)) == []
        assert findings_with(servers, {**off, "topic": "other"}) == []
        assert len(kafka.end_offsets("other")) == 3
        (more,) = findings_with(servers, {**expected, "topic__partitions": "4"})[1:2]
        assert (more.severity, more.error is None) == (Severity.WARNING, False)
        assert "with 3 partitions and is not changed: topic.partitions=4" in more.text
        assert len(kafka.end_offsets("new")) == 3
        with pytest.raises(ConfigError, match=r"no\.such"):
            findings_with(servers, {**expected, "topic": "third", "topic__config__no__such": "1"})


@pytest.mark.parametrize("topic", [{"topic": "new"}, {}], ids=["named", "column"])
def test_dead_letter_topic_is_created_with_broker_defaults(topic: dict[str, str]) -> None:
    expected = {
        "topic.create": "true",
        "topic.partitions": "3",
        "topic.config.cleanup.policy": "compact",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "letters",
    }
    with EmbeddedBroker(topics={"t": 1}) as kafka:
        named = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **expected, **topic}
        dry = PlannedWrite(config=SinkConfig.parse({**named, "dryRun": "true"}), has_key=True)
        assert problems(examine(dry)) == []
        write = PlannedWrite(config=SinkConfig.parse(named), has_key=True)
        assert problems(examine(write)) == []
        assert len(kafka.end_offsets("letters")) == 1
        if topic:
            assert len(kafka.end_offsets("new")) == 3


def test_findings_based_on_responses_apply_to_all_hosts() -> None:
    login = {
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "wrong",
        "kafka.security.protocol": "SASL_PLAINTEXT",
    }
    with EmbeddedBroker(topics={"t": 1}, sasl={"alice": "secret"}) as kafka:
        servers = kafka.bootstrap_servers
        assert problems(findings_with(servers, login)) == [(CheckStep.LOGIN, Severity.ERROR, False)]
    with EmbeddedBroker(topics={"t": 1}, tls=True) as kafka:
        [untrusted] = findings_with(kafka.bootstrap_servers, {"kafka.security.protocol": "SSL"})
        assert (untrusted.step, untrusted.is_local) == (CheckStep.TLS, True)


@pytest.mark.parametrize("unresponsive", [False, True], ids=["refused", "no response"])
def test_unreachable_servers_are_named(unresponsive: bool) -> None:
    short = {"kafka__max__block__ms": "1000"}
    with listening(never_respond) as black:
        servers = f"{closed_port()},{black}" if unresponsive else closed_port()
        [finding] = findings_with(servers, short)
    assert (finding.severity, finding.is_local) == (Severity.ERROR, True)
    assert "preflight=off" in (finding.hint or "")


def test_topic_creation_without_servers_fails_the_write() -> None:
    expected = {"topic__create": "true", "kafka__max__block__ms": "300"}
    with pytest.raises(KafkaProdError, match="Connection refused"):
        findings_with(closed_port(), expected)
    [finding] = findings_with(closed_port(), {**expected, "preflight": "fail"})
    assert finding.severity is Severity.ERROR


def test_refused_connections_fail_before_the_timeout() -> None:
    config = SinkConfig.parse({"kafka.bootstrap.servers": closed_port(), "topic": "t"})
    an_hour = 3600.0
    with BlockingClient(config.producer) as client:
        finding = connect(client, an_hour, 0.1)
    assert finding is not None
    assert "Connection refused" in finding.text


def test_only_findings_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    findings_of(closed_port(), kafka__max__block__ms="300")
    assert caplog.messages == []
