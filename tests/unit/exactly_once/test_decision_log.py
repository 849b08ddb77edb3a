"""A decision log that a planning has to create."""

from typing import Any

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.exactly_once import ExactlyOnceConfig
from spark_kafka_sink.exactly_once.decision_log import DecisionLog
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.harness.scripted import blocking_client, code
from tests.unit.kafka.admin.partition_leader import PartitionLeader


class Service(PartitionLeader):
    """A cluster without topic t, whose policy allows only some configs of new topics."""

    def __init__(self, rejection: int, allowed: set[str]) -> None:
        super().__init__()
        self.metadata_errors["t"] = ErrorCode.unknown_topic_or_partition
        self.rejection, self.allowed = rejection, allowed
        self.scripts[ApiKey.CREATE_TOPICS] = self._create
        self.scripts[ApiKey.DESCRIBE_CONFIGS] = lambda _node, _request: {
            "results": [code(0) | {"resource_type": 2, "resource_name": "t", "configs": []}]
        }

    def _create(self, _node: int, request: Any) -> dict[str, Any]:
        names = {config.name for config in request.topics[0].configs}
        failed = 0 if names <= self.allowed else self.rejection
        if not failed:
            self.metadata_errors.clear()
        text = "Config property 'segment.bytes' is lower than the minimum allowed value"
        return {"topics": [code(failed) | {"name": "t", "error_message": text}]}

    def created_with(self) -> list[dict[str, str]]:
        """Return the configs of each CreateTopics request."""
        return [
            {config.name: config.value for config in request.topics[0].configs}
            for _, request in self.requests_for(ApiKey.CREATE_TOPICS)
        ]


def read(service: Service, retention_ms: int = -1) -> None:
    config = ExactlyOnceConfig(decision_log_topic="t", decision_log_retention_ms=retention_ms)
    with blocking_client(service) as client:
        log = DecisionLog(client, TransactionAdmin(client), config)
        log.read(client.deadline(10), create=True)


@pytest.mark.parametrize(
    "rejection",
    [ErrorCode.policy_violation, ErrorCode.invalid_config, ErrorCode.invalid_request],
)
@pytest.mark.parametrize(
    ("retention_ms", "required"),
    [
        (-1, {"cleanup.policy": "compact"}),
        (1_000, {"cleanup.policy": "compact,delete", "retention.ms": "1000"}),
    ],
)
def test_rejected_configs_are_omitted_unless_they_are_required(
    rejection: int,
    retention_ms: int,
    required: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Confluent Cloud requires segments of 50 MiB; other services allow even fewer configs."""
    service = Service(rejection, allowed=set(required))
    read(service, retention_ms)
    recommended, default = service.created_with()
    assert recommended.items() > default.items()
    assert default == required
    assert "created with the brokers' default configs: the topic cannot be created" in caplog.text


def test_topic_that_cannot_be_compacted_is_an_error() -> None:
    with pytest.raises(ConfigError, match="cannot be created"):
        read(Service(ErrorCode.invalid_config, allowed=set()))
