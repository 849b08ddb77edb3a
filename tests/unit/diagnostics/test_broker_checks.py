"""Checks of the transactional ids of a write."""

import pytest

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.diagnostics.broker_checks import check_transactional_ids
from spark_kafka_sink.diagnostics.finding import CheckStep, Finding, Severity
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.support.harness.scripted import blocking_client
from tests.unit.kafka.admin.scripted_coordinator import ScriptedCoordinator

UNUSED = "orders/kafkaprod-doctor"


def check(cluster: ScriptedCoordinator) -> list[Finding]:
    config = SinkConfig.parse(
        {
            "kafka.bootstrap.servers": "localhost:1",
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": "orders",
        }
    )
    with blocking_client(cluster) as client:
        return check_transactional_ids(client, config, 0.5)


def test_missing_coordinator_is_explained() -> None:
    cluster = ScriptedCoordinator()
    cluster.find_codes[UNUSED].extend([ErrorCode.coordinator_not_available] * 10_000)
    (finding,) = check(cluster)
    assert (finding.step, finding.severity) == (CheckStep.BROKERS, Severity.WARNING)
    assert "transaction.state.log.replication.factor" in (finding.hint or "")


@pytest.mark.parametrize(
    ("code", "severity"),
    [
        (ErrorCode.invalid_producer_id_mapping, Severity.OK),
        (ErrorCode.transactional_id_authorization_failed, Severity.ERROR),
    ],
)
def test_permission_is_checked(code: ErrorCode, severity: Severity) -> None:
    cluster = ScriptedCoordinator()
    cluster.queue_codes(UNUSED, [code])
    (finding,) = check(cluster)
    assert (finding.step, finding.severity) == (CheckStep.PERMISSIONS, severity)
