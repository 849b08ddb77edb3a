"""Findings about topics and permissions."""

import pytest

from spark_kafka_sink.diagnostics.finding import Severity
from spark_kafka_sink.diagnostics.topic_checks import check_permissions, check_topic_facts
from spark_kafka_sink.diagnostics.topic_facts import Creation, TopicFacts
from spark_kafka_sink.kafka.admin.topic_handlers import TopicDescription
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.unit.diagnostics.planned_write import DESCRIBE, IDEMPOTENT_WRITE, WRITE, config


@pytest.mark.parametrize(
    ("creation", "severity", "says"),
    [
        (None, Severity.ERROR, "kafka.allow.auto.create.topics is false"),
        (Creation(auto_create=False), Severity.ERROR, "auto.create.topics.enable=false"),
        (
            Creation(auto_create=None, code=int(ErrorCode.topic_authorization_failed)),
            Severity.ERROR,
            "User:ANONYMOUS is not authorized to create it",
        ),
        (
            Creation(auto_create=True, code=int(ErrorCode.policy_violation), message="no"),
            Severity.WARNING,
            "cannot be created: no",
        ),
        (Creation(auto_create=None), Severity.WARNING, "it is unknown whether"),
        (Creation(auto_create=True), Severity.NOTE, "the brokers will create it"),
        (Creation(by_sink=True, auto_create=False), Severity.NOTE, "the write will create it"),
        (
            Creation(by_sink=True, code=int(ErrorCode.policy_violation), message="no"),
            Severity.ERROR,
            "cannot be created: no",
        ),
    ],
)
def test_missing_topic(creation: Creation | None, severity: Severity, says: str) -> None:
    code = int(ErrorCode.unknown_topic_or_partition)
    about = TopicFacts(name="t", code=code, creation=creation)
    finding = check_topic_facts(about, config().producer)
    assert finding.severity is severity
    assert says in finding.text


@pytest.mark.parametrize(
    ("creation", "helps"),
    [
        (Creation(auto_create=False), True),
        (Creation(auto_create=None, code=int(ErrorCode.policy_violation)), True),
        (Creation(by_sink=True, code=int(ErrorCode.policy_violation)), False),  # already set
        (Creation(auto_create=True, code=int(ErrorCode.topic_authorization_failed)), False),
        (Creation(by_sink=True, code=int(ErrorCode.cluster_authorization_failed)), False),
    ],
)
def test_topic_create_is_suggested_only_if_it_would_help(creation: Creation, helps: bool) -> None:
    code = int(ErrorCode.unknown_topic_or_partition)
    about = TopicFacts(name="t", code=code, creation=creation)
    hint = check_topic_facts(about, config().producer).hint or ""
    assert ('.option("topic.create", "true")' in hint) == helps
    assert "kafka-topics --bootstrap-server kafka:9092 --create --topic t" in hint
    letters = TopicFacts(name="t", code=code, creation=creation, of_dead_letters=True)
    assert check_topic_facts(letters, config().producer).hint == hint


@pytest.mark.parametrize(
    ("operations", "of_cluster", "severity"),
    [
        (WRITE | DESCRIBE, None, Severity.OK),
        (DESCRIBE, None, Severity.ERROR),
        (WRITE, IDEMPOTENT_WRITE, Severity.OK),
        (WRITE, DESCRIBE, Severity.ERROR),
        (None, None, Severity.NOTE),
    ],
)
def test_missing_permission_bits_are_findings(
    operations: int | None, of_cluster: int | None, severity: Severity
) -> None:
    description = TopicDescription(
        name="t", partitions=(), operations=operations, cluster_operations=of_cluster
    )
    about = TopicFacts(name="t", description=description)
    assert check_permissions(about, config().producer).severity is severity
