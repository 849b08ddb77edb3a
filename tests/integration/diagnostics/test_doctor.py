"""Findings of the doctor for connection, login, permission and configuration problems."""

import json
import logging
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from spark_kafka_sink.broker.embedded import EmbeddedBroker
from spark_kafka_sink.cli.main import app
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.doctor import Doctor, ProduceAction
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.diagnostics.planned_write import PlannedWrite
from tests.support.schema_registry import running
from tests.support.servers import (
    close_on_request,
    closed_port,
    listening,
    never_respond,
)

TOPICS = {"events": 2, "small": 1, "lonely": 1, "secret": 1, "readonly": 1}
DENIALS = ("alice:Describe:topic=secret", "alice:Write:topic=readonly", "alice:Create:topic=new")
RECORD = json.dumps({"type": "record", "name": "Value", "fields": []})
DRAFT_3 = '{"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"}'
WRONG_TYPE = '{"type": "object", "properties": {"id": {"type": "text"}}}'
WIDER = RECORD.replace("[]", '[{"name": "id", "type": "string"}]')
WITH_DEFAULT = WIDER.replace('"string"', '"string", "default": ""')
AVRO = {"value.format": "avro-confluent", "retries.wait.ms": "1", "max.retries": "1"}
OK, NOTE, ERROR = Severity.OK, Severity.NOTE, Severity.ERROR
NOT_AUTO = {"auto.register.schemas": "false"}


@pytest.fixture(scope="module")
def plain() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"events": 2}) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def secured() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        topics=TOPICS,
        topic_configs={
            "small": {"max.message.bytes": "1000"},
            "lonely": {"min.insync.replicas": "2"},
        },
        tls=True,
        sasl={"alice": "secret-of-alice"},
        sasl_mechanisms=["SCRAM-SHA-512"],
        denials=DENIALS,
        auto_create_topics=True,
    ) as kafka:
        yield kafka


def login(kafka: EmbeddedBroker, **changed: str) -> dict[str, str]:
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.ca.pem": kafka.ca_certificate,
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.username": "alice",
        "kafka.sasl.password": "secret-of-alice",
        "topic": "events",
    }
    return options | {name.replace("_", "."): value for name, value in changed.items()}


def examine_options(
    options: dict[str, str],
    *,
    produce: ProduceAction = ProduceAction.PROBE,
    has_key: bool | None = None,
    seconds: float = 30.0,
) -> dict[CheckStep, Finding]:
    write = PlannedWrite(config=SinkConfig.parse(options), has_key=has_key)
    doctor = Doctor(write=write, produce=produce, seconds=seconds)
    return {finding.step: finding for finding in doctor.examine()}


def most_severe(findings: dict[CheckStep, Finding]) -> Finding:
    order = list(Severity)
    return max(findings.values(), key=lambda finding: order.index(finding.severity))


def test_no_problems_and_no_writes(secured: EmbeddedBroker) -> None:
    findings = examine_options(login(secured))
    assert {finding.severity for finding in findings.values()} == {Severity.OK}, findings
    assert list(findings) == [
        CheckStep.CONNECT,
        CheckStep.TLS,
        CheckStep.VERSIONS,
        CheckStep.LOGIN,
        CheckStep.METADATA,
        CheckStep.BROKERS,
        CheckStep.TOPIC,
        CheckStep.SETTINGS,
        CheckStep.PERMISSIONS,
        CheckStep.PRODUCE,
    ]
    assert "TLSv1" in findings[CheckStep.TLS].text
    assert findings[CheckStep.LOGIN].text == "SCRAM-SHA-512 as User:alice"
    assert sum(secured.end_offsets("events")) == 0


def test_write_one_record_on_request(plain: EmbeddedBroker) -> None:
    options = {"kafka.bootstrap.servers": plain.bootstrap_servers, "topic": "events"}
    findings = examine_options(options, produce=ProduceAction.RECORD)
    assert findings[CheckStep.PRODUCE].severity is Severity.OK
    assert sum(plain.end_offsets("events")) == 1


@pytest.mark.parametrize(
    ("changed", "step", "message", "hint"),
    [
        ({"kafka_sasl_password": "wrong"}, CheckStep.LOGIN, "rejected the login", "sasl.password"),
        ({"kafka_sasl_mechanism": "PLAIN"}, CheckStep.LOGIN, "does not offer", "sasl.mechanism"),
        (
            {"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_ssl_ca_pem": ""},
            CheckStep.VERSIONS,
            "the port uses TLS",
            "SASL_SSL",
        ),
        ({"topic": "secret"}, CheckStep.PERMISSIONS, "Describe on topic secret", "kafka-acls"),
        ({"topic": "readonly"}, CheckStep.PERMISSIONS, "Write on topic readonly", "kafka-acls"),
        ({"topic": "new"}, CheckStep.PERMISSIONS, "not authorized to create it", "kafka-acls"),
        (
            {"topic": "missing", "kafka_allow_auto_create_topics": "false"},
            CheckStep.TOPIC,
            "topic missing does not exist",
            "kafka-topics",
        ),
    ],
)
def test_problems_that_fail_every_task(
    changed: dict[str, str], step: CheckStep, message: str, hint: str, secured: EmbeddedBroker
) -> None:
    options = login(secured, **changed)
    finding = most_severe(
        examine_options({name: value for name, value in options.items() if value})
    )
    assert (finding.severity, finding.step) == (Severity.ERROR, step), finding
    assert message in finding.text
    assert hint in (finding.hint or "")


def test_untrusted_certificate_is_a_finding(secured: EmbeddedBroker) -> None:
    with EmbeddedBroker(tls=True) as other:
        options = login(secured, kafka_ssl_ca_pem=other.ca_certificate)
        finding = most_severe(examine_options(options))
    assert (finding.severity, finding.step) == (Severity.ERROR, CheckStep.TLS)
    assert "certificate" in finding.text


@pytest.mark.parametrize(
    ("topic", "message"), [("small", "max.message.bytes=1000"), ("lonely", "min.insync.replicas=2")]
)
def test_conflicting_settings_are_findings(
    topic: str, message: str, secured: EmbeddedBroker
) -> None:
    findings = examine_options(login(secured, topic=topic))
    assert findings[CheckStep.PRODUCE].severity is Severity.OK
    assert findings[CheckStep.SETTINGS].severity is Severity.WARNING
    assert message in findings[CheckStep.SETTINGS].text


def test_topic_that_the_write_creates(plain: EmbeddedBroker) -> None:
    options = {
        "kafka.bootstrap.servers": plain.bootstrap_servers,
        "kafka.allow.auto.create.topics": "false",
        "topic": "hourly",
        "topic.create": "true",
        "topic.partitions": "2",
    }
    findings = examine_options(options)
    assert findings[CheckStep.TOPIC].severity is Severity.NOTE
    assert "the write will create it" in findings[CheckStep.TOPIC].text
    assert most_severe(findings).severity is not Severity.ERROR
    finding = most_severe(examine_options({**options, "topic.replication.factor": "3"}))
    assert (finding.severity, finding.step) == (Severity.ERROR, CheckStep.TOPIC)


def test_unreachable_servers_are_named(plain: EmbeddedBroker) -> None:
    topic = {"topic": "events"}
    closed = examine_options({"kafka.bootstrap.servers": closed_port(), **topic})
    assert most_severe(closed).step is CheckStep.CONNECT
    assert "Connection refused" in most_severe(closed).text
    unknown = most_severe(
        examine_options({"kafka.bootstrap.servers": "no-such.invalid:9092", **topic})
    )
    assert unknown.step is CheckStep.RESOLVE
    with listening(never_respond) as unresponsive:
        black = most_severe(
            examine_options({"kafka.bootstrap.servers": unresponsive, **topic}, seconds=0.3)
        )
    assert (black.step, black.is_local) == (CheckStep.VERSIONS, True)
    assert "no response within 0.3 s" in black.text
    with listening(close_on_request) as other:
        mute = most_severe(examine_options({"kafka.bootstrap.servers": other, **topic}))
    assert mute.step is CheckStep.VERSIONS
    both = f"{closed_port()},{plain.bootstrap_servers}"
    severities = [
        finding.severity
        for finding in Doctor(
            write=PlannedWrite(config=SinkConfig.parse({"kafka.bootstrap.servers": both, **topic})),
            seconds=30.0,
        ).examine()
    ]
    assert severities.count(Severity.WARNING) == 1
    assert Severity.ERROR not in severities


def test_plaintext_instead_of_tls(plain: EmbeddedBroker) -> None:
    options = {
        "kafka.bootstrap.servers": plain.bootstrap_servers,
        "kafka.security.protocol": "SSL",
        "topic": "events",
    }
    finding = most_severe(examine_options(options))
    assert (finding.severity, finding.step) == (Severity.ERROR, CheckStep.TLS)


def test_unreachable_advertised_address() -> None:
    with EmbeddedBroker(
        topics={"events": 1}, port=free(), advertised_listeners="kafka-1.invalid:9092"
    ) as kafka:
        options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "topic": "events"}
        finding = most_severe(examine_options(options))
    assert (finding.severity, finding.step) == (Severity.ERROR, CheckStep.BROKERS)
    assert "kafka-1.invalid:9092" in finding.text
    assert "advertised.listeners" in (finding.hint or "")


def free() -> int:
    return int(closed_port().rpartition(":")[2])


def test_command_exit_status_and_json(plain: EmbeddedBroker) -> None:
    run, servers = CliRunner(), plain.bootstrap_servers
    level = logging.getLogger("spark_kafka_sink").level
    good = run.invoke(app, ["doctor", "--bootstrap-servers", servers, "--topic", "events"])
    assert good.exit_code == 0, good.output
    assert "nothing was written" in good.output
    call = ["doctor", "--bootstrap-servers", servers, "--json", "--no-produce"]
    bad = run.invoke(app, [*call, "-o", "topic=missing", "-o", "allow.auto.create.topics=false"])
    result = json.loads(bad.output)
    assert bad.exit_code == 1
    assert not result["ok"]
    assert result["findings"][-1]["step"] == "topic"
    assert result["findings"][-1]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert logging.getLogger("spark_kafka_sink").level == level


@pytest.mark.parametrize(
    ("options", "severity", "message"),
    [
        ({}, NOTE, "subject events-value exists; a write with dryRun=true"),
        ({"topic": "new"}, NOTE, "subject new-value does not exist yet"),
        ({"topic": "new", **NOT_AUTO}, ERROR, "auto.register.schemas is false"),
        ({"value.schema": RECORD}, OK, "subject events-value has the schema"),
        ({"value.schema": WITH_DEFAULT}, OK, "compatible with the versions of"),
        ({"value.schema": WIDER}, ERROR, "'id' at path '/fields/0'"),
        ({"value.schema": RECORD, **NOT_AUTO}, OK, "has the schema with id 1"),
        ({"value.schema": WIDER, **NOT_AUTO}, ERROR, "Schema not found"),
        ({"use.latest.version": "true", **NOT_AUTO}, OK, "has the schema with id 1"),
        ({"use.schema.id": "7", **NOT_AUTO}, ERROR, "40403"),
        ({"value.format": "json-confluent", "use.schema.id": "1", **NOT_AUTO}, ERROR, "type AVRO"),
        ({"basic.auth.user.info": "me:secret-pw"}, ERROR, "HTTP status 401"),
        ({"value.format": "json-confluent", "value.schema": DRAFT_3}, ERROR, "draft 3"),
        ({"value.format": "json-confluent", "value.schema": WRONG_TYPE}, ERROR, "invalid at $.pro"),
    ],
)
def test_schemas_are_checked_but_not_registered(
    plain: EmbeddedBroker, options: dict[str, str], severity: Severity, message: str
) -> None:
    with running() as registry:
        registry.put("events-value", RECORD)
        registry.authorization = "Basic none" if "basic.auth.user.info" in options else None
        write = {"kafka.bootstrap.servers": plain.bootstrap_servers, "topic": "events", **AVRO}
        registry_finding = examine_options(
            {**write, "schema.registry.url": registry.url, **options}
        )[CheckStep.REGISTRY]
        assert (
            registry_finding.severity,
            message in registry_finding.text,
            "secret-pw" in registry_finding.text,
        ) == (
            severity,
            True,
            False,
        ), registry_finding
        assert registry.subjects == {"events-value": [1]}


@pytest.mark.parametrize("has_guids", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"value.schema": RECORD},
        {"value.schema": WITH_DEFAULT},
        {"value.schema": RECORD, **NOT_AUTO},
        {"use.latest.version": "true", **NOT_AUTO},
        {"use.schema.id": "1", **NOT_AUTO},
    ],
)
def test_registry_without_guids_for_headers(
    plain: EmbeddedBroker, options: dict[str, str], has_guids: bool
) -> None:
    """A response to a request by id never contains a GUID."""
    write = {"kafka.bootstrap.servers": plain.bootstrap_servers, "topic": "events", **AVRO}
    header = {"value.schema.id.serializer": "HeaderSchemaIdSerializer"}
    with running() as registry:
        registry.put("events-value", RECORD)
        registry.guids = has_guids
        finding = examine_options(
            {**write, **header, "schema.registry.url": registry.url, **options}
        )[CheckStep.REGISTRY]
    is_error = not has_guids or "use.schema.id" in options
    assert (finding.severity is ERROR, "returns no GUID" in finding.text) == (is_error, is_error)


def test_unreachable_registry_is_a_finding(plain: EmbeddedBroker) -> None:
    write = {"kafka.bootstrap.servers": plain.bootstrap_servers, "topic": "events", **AVRO}
    findings = examine_options({**write, "schema.registry.url": f"http://{closed_port()}"})
    assert findings[CheckStep.PRODUCE].severity is OK
    assert findings[CheckStep.REGISTRY].severity is ERROR
    assert "cannot be reached" in findings[CheckStep.REGISTRY].text
