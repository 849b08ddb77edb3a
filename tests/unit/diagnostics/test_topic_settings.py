"""Findings about a topic's settings."""

import pytest

from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.diagnostics.topic_facts import TopicFacts
from spark_kafka_sink.diagnostics.topic_settings import check_buffer, check_settings
from spark_kafka_sink.kafka.admin.topic_handlers import PartitionDescription, TopicDescription
from tests.unit.diagnostics.planned_write import WRITE, config

GOOD = {
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "compression.type": "producer",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
}


def facts(settings: dict[str, str], *, replicas: int = 3, in_sync: int = 3) -> TopicFacts:
    ids = tuple(range(1, replicas + 1))
    partition = PartitionDescription(index=0, leader=1, replicas=ids, in_sync=ids[:in_sync])
    description = TopicDescription(name="t", partitions=(partition,), operations=WRITE)
    topic_settings = {name.replace("_", "."): value for name, value in settings.items()}
    return TopicFacts(name="t", description=description, settings=GOOD | topic_settings)


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    return finding


def test_matching_settings_are_listed() -> None:
    finding = only(check_settings(facts({}), config(), True))
    assert finding.severity is Severity.OK
    assert "max.message.bytes=1048588" in finding.text


@pytest.mark.parametrize(
    ("settings", "options", "says"),
    [
        ({"max_message_bytes": "1000"}, {}, "kafka.batch.size=1048576"),
        ({"max_message_bytes": "100000"}, {"kafka_compression_type": "zstd"}, "max.message.bytes"),
        ({"compression_type": "gzip"}, {}, "recompress every batch"),
        ({"compression_type": "uncompressed"}, {"kafka_compression_type": "lz4"}, "recompress"),
        ({"message_timestamp_type": "LogAppendTime"}, {"useTimestampColumn": "true"}, "own time"),
        ({"message_timestamp_before_max_ms": "5"}, {"useTimestampColumn": "true"}, "are rejected"),
    ],
)
def test_conflicting_settings_are_warned_about(
    settings: dict[str, str], options: dict[str, str], says: str
) -> None:
    finding = only(check_settings(facts(settings), config(**options), True))
    assert (finding.step, finding.severity) == (CheckStep.SETTINGS, Severity.WARNING)
    assert says in finding.text
    assert finding.hint


@pytest.mark.parametrize(
    ("settings", "options"),
    [
        ({"max_message_bytes": "400000"}, {"kafka_compression_type": "zstd"}),
        ({"compression_type": "zstd"}, {"kafka_compression_type": "zstd"}),
        ({"message_timestamp_type": "LogAppendTime"}, {}),
    ],
)
def test_harmless_settings_are_ok(settings: dict[str, str], options: dict[str, str]) -> None:
    findings = check_settings(facts(settings), config(**options), True)
    assert only(findings).severity is Severity.OK


@pytest.mark.parametrize(
    ("replicas", "in_sync", "acks", "says"),
    [
        (1, 1, "all", "min.insync.replicas=2, but a partition of topic t has 1"),
        (3, 1, "all", "has 1 of 3 replicas in sync"),
        (3, 1, "1", None),
        (3, 2, "all", None),
    ],
)
def test_replication_and_acks(replicas: int, in_sync: int, acks: str, says: str | None) -> None:
    about = facts({"min_insync_replicas": "2"}, replicas=replicas, in_sync=in_sync)
    finding = only(check_settings(about, config(kafka_acks=acks), True))
    assert finding.severity is (Severity.WARNING if says else Severity.OK)
    assert says is None or says in finding.text


@pytest.mark.parametrize(
    ("has_key", "tolerance", "severity"),
    [
        (False, "none", Severity.ERROR),
        (False, "all", Severity.WARNING),
        (True, "none", Severity.NOTE),
        (None, "none", Severity.NOTE),
    ],
)
def test_compacted_topic_needs_keys(
    has_key: bool | None, tolerance: str, severity: Severity
) -> None:
    about = facts({"cleanup_policy": "compact,delete"})
    findings = check_settings(about, config(errors_tolerance=tolerance), has_key)
    assert only(findings).severity is severity


@pytest.mark.parametrize(
    ("partitions", "options", "has_key", "severity"),
    [
        (64, {}, None, None),
        (200, {}, None, Severity.NOTE),
        (200, {"kafka_batch_size": "16384"}, None, None),
        (3000, {}, True, Severity.WARNING),
        (200, {"kafka_buffer_memory": "1000000"}, None, Severity.WARNING),
        (200, {"kafka_buffer_memory": "1000000"}, False, None),
    ],
)
def test_buffer_without_room_for_a_batch_per_partition(
    partitions: int, options: dict[str, str], has_key: bool | None, severity: Severity | None
) -> None:
    partition = PartitionDescription(index=0, leader=1, replicas=(1,), in_sync=(1,))
    findings = check_buffer(
        TopicFacts(
            name="t",
            description=TopicDescription(
                name="t", partitions=(partition,) * partitions, operations=WRITE
            ),
        ),
        config(**options).producer,
        has_key,
    )
    assert [finding.severity for finding in findings] == ([] if severity is None else [severity])
    for finding in findings:
        assert f"batch.size of each of {partitions:,} partitions" in finding.text
        assert "kafka.buffer.memory" in finding.text
