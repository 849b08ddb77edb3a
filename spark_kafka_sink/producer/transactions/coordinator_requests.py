"""Build the requests to transaction coordinators.

Source: Kafka's ``TransactionManager``, KIP-98, KIP-939.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.client.request import Request
from spark_kafka_sink.kafka.protocol import transactions
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange, negotiate

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
    from spark_kafka_sink.kafka.protocol.messages import FieldValues
    from spark_kafka_sink.kafka.protocol.transactions import TransactionalProducer
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings

_FINDS_TRANSACTIONS = 1
"""First version of FindCoordinator for transactional ids (KIP-98)."""
_TWO_PHASE = VersionRange(6, 6)
"""The version of InitProducerId that supports two-phase commit (KIP-939)."""


def negotiated_request(
    versions: NodeApiVersions,
    api: ApiKey,
    values: FieldValues,
    context: object,
    max_version: int | None = None,
) -> Request:
    """Return a request in the negotiated version, which is at most `max_version`."""
    return Request.of(api, versions.latest_usable(api, max_version), values, context)


def find_coordinator_request(
    versions: NodeApiVersions, transactional_id: str, context: object
) -> Request:
    """Return a request to any broker for the coordinator of a transactional id.

    Raises:
        ProtocolError: the broker is too old to support transactions.
    """
    version = versions.latest_usable(ApiKey.FIND_COORDINATOR)
    if version < _FINDS_TRANSACTIONS:
        raise ProtocolError(
            "the broker does not support transactions",
            kafka_error=error_name(ErrorCode.unsupported_version),
            hint="Exactly-once needs Apache Kafka 2.1 or later, or a compatible broker.",
        )
    values = transactions.find_coordinator_values([transactional_id])
    return Request.of(ApiKey.FIND_COORDINATOR, version, values, context)


def init_producer_id_request(
    versions: NodeApiVersions, settings: TransactionSettings, context: object
) -> Request:
    """Return a request to the coordinator for a producer id and the next epoch.

    Raises:
        ProtocolError: two-phase commit is requested, but the broker does not support it.
    """
    api = ApiKey.INIT_PRODUCER_ID
    version = _two_phase_version(versions) if settings.two_phase else versions.latest_usable(api)
    timeout_ms = transactions.NO_TIMEOUT_MS if settings.two_phase else settings.timeout_ms
    values = transactions.init_producer_id_values(
        settings.first_id, timeout_ms, two_phase=settings.two_phase
    )
    return Request.of(api, version, values, context)


def _two_phase_version(versions: NodeApiVersions) -> int:
    api = ApiKey.INIT_PRODUCER_ID
    try:
        return negotiate(api, _TWO_PHASE, versions.ranges.get(api))
    except ProtocolError as error:
        raise ProtocolError(
            "two-phase commit requires InitProducerId 6, which the broker does not support "
            "(KIP-939)",
            kafka_error=error.kafka_error,
            hint="It needs unstable.api.versions.enable=true and "
            "transaction.two.phase.commit.enable=true on every broker (Kafka 4.2 or later); "
            "without twoPhaseCommit, brokers abort transactions after transaction.max.timeout.ms.",
        ) from error


def end_request(
    versions: NodeApiVersions, transaction: TransactionalProducer, context: object
) -> Request:
    """Return an EndTxn request that aborts a transaction."""
    values = transactions.end_txn_values(transaction, commit=False)
    max_version = transaction.version.max_version(ApiKey.END_TXN)
    return negotiated_request(versions, ApiKey.END_TXN, values, context, max_version)
