"""Check this client's permissions by the authorized operations brokers report (KIP-430). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common.errors import AuthorizationError
from spark_kafka_sink.diagnostics.finding import Finding, Step
from spark_kafka_sink.diagnostics.topics import guide_of
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.security.acl import Acl, Operation, ResourceType

if TYPE_CHECKING:
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.diagnostics.topics import TopicFacts

_ALL: Final = 1 << 2
_WRITE: Final = 1 << 4
_IDEMPOTENT_WRITE: Final = 1 << 12
"""Bits of authorized operations, numbered by the codes of Kafka's AclOperation."""


def judge_permissions(facts: TopicFacts, config: ProducerConfig) -> Finding:
    """Check that this client may write to an existing topic.

    Since Kafka 2.8, Write on any topic is sufficient for an idempotent producer (KIP-679). Before
    that, brokers report the authorized operations on the cluster in Metadata; later ones do not.
    """
    assert facts.description is not None
    name, guide = facts.name, guide_of(config)
    operations, of_cluster = facts.description.operations, facts.description.cluster_operations
    if not operations:  # a broker that reports operations includes at least Describe
        return Finding.note(
            Step.PERMISSIONS, f"{name}: the brokers do not tell, as before Kafka 2.3"
        )
    if not operations & (_WRITE | _ALL):
        error = AuthorizationError(
            f"Write on topic {name} is denied to {guide.principal}",
            topic=name,
            error=error_name(ErrorCode.topic_authorization_failed),
            hint=guide.grant(Acl(Operation.WRITE, ResourceType.TOPIC, name)),
        )
        return Finding.failure(Step.PERMISSIONS, error)
    lacks_cluster = of_cluster is not None and not of_cluster & (_IDEMPOTENT_WRITE | _ALL)
    if config.enable_idempotence and lacks_cluster:
        right = Acl(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        error = AuthorizationError(
            f"IdempotentWrite on the cluster is denied to {guide.principal}, and these brokers "
            "(before Kafka 2.8) give nobody else a producer id",
            error=error_name(ErrorCode.cluster_authorization_failed),
            hint=f"{guide.grant(right)}, or set kafka.enable.idempotence=false",
        )
        return Finding.failure(Step.PERMISSIONS, error)
    return Finding.ok(Step.PERMISSIONS, f"Write on topic {name} is allowed to {guide.principal}")
