"""Verdicts on findings, without a broker."""

import socket

import pytest

from spark_kafka_sink.common.errors import AuthenticationError, TlsError
from spark_kafka_sink.config.security.security_config import SecurityConfig
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.connection_checks import check_connection, check_unreachable
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.diagnostics.topic_checks import check_permissions, check_topic_facts
from spark_kafka_sink.diagnostics.topic_facts import Creation, TopicFacts
from spark_kafka_sink.diagnostics.topic_settings import check_buffer, check_settings
from spark_kafka_sink.kafka.admin.topic_handlers import PartitionDescription, TopicDescription
from spark_kafka_sink.kafka.client.channel.connection_failures import Circumstances, diagnose
from spark_kafka_sink.kafka.client.channel.transport import ChannelState
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.frame import OtherProtocolError, TlsBytesError

_WRITE, _DESCRIBE, _IDEMPOTENT_WRITE = 1 << 4, 1 << 8, 1 << 12
_GOOD = {
    "max.message.bytes": "1048588",
    "min.insync.replicas": "1",
    "compression.type": "producer",
    "cleanup.policy": "delete",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
}


def config(**options: str) -> SinkConfig:
    kafka_options = {name.replace("_", "."): value for name, value in options.items()}
    return SinkConfig.parse(
        {"kafka.bootstrap.servers": "kafka:9092", "topic": "t", **kafka_options}
    )


def facts(settings: dict[str, str], *, replicas: int = 3, in_sync: int = 3) -> TopicFacts:
    ids = tuple(range(1, replicas + 1))
    partition = PartitionDescription(index=0, leader=1, replicas=ids, in_sync=ids[:in_sync])
    description = TopicDescription(name="t", partitions=(partition,), operations=_WRITE)
    topic_settings = {name.replace("_", "."): value for name, value in settings.items()}
    return TopicFacts(name="t", description=description, settings=_GOOD | topic_settings)


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
                name="t", partitions=(partition,) * partitions, operations=_WRITE
            ),
        ),
        config(**options).producer,
        has_key,
    )
    assert [finding.severity for finding in findings] == ([] if severity is None else [severity])
    for finding in findings:
        assert f"batch.size of each of {partitions:,} partitions" in finding.text
        assert "kafka.buffer.memory" in finding.text


@pytest.mark.parametrize(
    ("operations", "of_cluster", "severity"),
    [
        (_WRITE | _DESCRIBE, None, Severity.OK),
        (_DESCRIBE, None, Severity.ERROR),
        (_WRITE, _IDEMPOTENT_WRITE, Severity.OK),
        (_WRITE, _DESCRIBE, Severity.ERROR),
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


def _failure(error: Exception, state: ChannelState) -> Finding:
    at = Circumstances(broker="kafka:9092", security=SecurityConfig(), state=state)
    return check_connection("kafka:9092", diagnose(error, at))


@pytest.mark.parametrize(
    ("error", "state", "step", "is_local"),
    [
        (
            socket.gaierror(socket.EAI_NONAME, "unknown"),
            ChannelState.RESOLVING,
            CheckStep.RESOLVE,
            True,
        ),
        (
            socket.gaierror(socket.EAI_AGAIN, "later"),
            ChannelState.RESOLVING,
            CheckStep.RESOLVE,
            True,
        ),
        (ConnectionRefusedError(111, "refused"), ChannelState.CONNECTING, CheckStep.CONNECT, True),
        (TimeoutError("no connection"), ChannelState.CONNECTING, CheckStep.CONNECT, True),
        (OSError(113, "No route to host"), ChannelState.CONNECTING, CheckStep.CONNECT, True),
    ],
)
def test_error_is_attributed_to_its_step(
    error: Exception, state: ChannelState, step: CheckStep, is_local: bool
) -> None:
    finding = _failure(error, state)
    assert (finding.step, finding.is_local) == (step, is_local)


@pytest.mark.parametrize(
    ("error", "is_local"),
    [
        (AuthenticationError("rejected", kafka_error="SASL_AUTHENTICATION_FAILED"), False),
        (AuthenticationError("no ticket"), True),
        (TlsError("the certificate is not trusted"), True),
        (TlsBytesError("TLS"), False),
        (OtherProtocolError("HTTP"), True),
    ],
)
def test_broker_response_applies_to_every_host(error: Exception, is_local: bool) -> None:
    assert _failure(error, ChannelState.NEGOTIATING).is_local is is_local


def test_one_unresponsive_server_makes_it_uncertain() -> None:
    refused = _failure(
        AuthenticationError("rejected", kafka_error="X"), ChannelState.AUTHENTICATING
    )
    silent = _failure(TimeoutError("no connection"), ChannelState.CONNECTING)
    assert not check_unreachable([refused, refused], 2).is_local
    both = check_unreachable([refused, silent], 2)
    assert both.is_local
    assert "rejected" in both.text
    assert "no connection" in both.text
