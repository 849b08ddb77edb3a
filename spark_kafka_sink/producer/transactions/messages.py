"""The requests to a transaction coordinator, and readers for its responses.

Source: KIP-98, KIP-699 (FindCoordinator in batches), KIP-890, KIP-939.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.cluster import Node, TopicPartition
from spark_kafka_sink.client.request import Request
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.protocol import transactions
from spark_kafka_sink.protocol.codec import encode
from spark_kafka_sink.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.protocol.messages import build
from spark_kafka_sink.protocol.transactions import OpenTransaction
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange, negotiate, request_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.client.connection import Connection
    from spark_kafka_sink.producer.transactions.settings import TransactionSettings
    from spark_kafka_sink.protocol.messages import Values

_TWO_PHASE = VersionRange(6, 6)
"""The version of InitProducerId that supports two-phase commit (KIP-939)."""
_NO_TIMEOUT = 2**31 - 1


def find_coordinator(connection: Connection, transactional_id: str, context: object) -> Request:
    """Return a request to any broker for the coordinator of a transactional id.

    Raises:
        ProtocolError: the broker is too old to support transactions.
    """
    version = connection.version(ApiKey.FIND_COORDINATOR)
    if version < 1:
        raise ProtocolError(
            "the broker knows of no transactions",
            error=error_name(ErrorCode.unsupported_version),
            hint="exactly-once needs Apache Kafka 2.1 or later, or what is compatible with it",
        )
    values = transactions.find_coordinator([transactional_id])
    return _request(ApiKey.FIND_COORDINATOR, version, values, context)


def init_producer_id(
    connection: Connection, settings: TransactionSettings, context: object
) -> Request:
    """Return a request to the coordinator for a producer id and the next epoch.

    Raises:
        ProtocolError: two-phase commit is requested, but the broker does not support it.
    """
    api = ApiKey.INIT_PRODUCER_ID
    version = _two_phase(connection) if settings.two_phase else connection.version(api)
    timeout_ms = _NO_TIMEOUT if settings.two_phase else settings.timeout_ms
    values = transactions.init_producer_id(
        settings.first_id, timeout_ms, two_phase=settings.two_phase
    )
    return _request(api, version, values, context)


def _two_phase(connection: Connection) -> int:
    api = ApiKey.INIT_PRODUCER_ID
    try:
        return negotiate(api, _TWO_PHASE, connection.versions.get(api))
    except ProtocolError as error:
        raise ProtocolError(
            "two-phase commit is wanted, and the broker does not offer InitProducerId 6 (KIP-939)",
            error=error.error,
            hint="it needs unstable.api.versions.enable=true and "
            "transaction.two.phase.commit.enable=true on every broker (Kafka 4.2 or later); "
            "without twoPhaseCommit transactions end with transaction.max.timeout.ms",
        ) from error


def serves_describe(connection: Connection) -> bool:
    """Return True if the broker answers DescribeTransactions (Kafka 3.0 and newer)."""
    return ApiKey.DESCRIBE_TRANSACTIONS in connection.versions


def describe(connection: Connection, transactional_id: str, context: object) -> Request:
    """Return a request to the coordinator for the state of a transactional id."""
    api = ApiKey.DESCRIBE_TRANSACTIONS
    values = {"transactional_ids": [transactional_id]}
    return _request(api, connection.version(api), values, context)


def described_code(response: Any | None) -> int:
    """Return the error code for the one id of a `describe`; `disconnected` without a response."""
    return error_code(None if response is None else response.transaction_states[0])


def add_partitions(
    connection: Connection,
    transaction: OpenTransaction,
    partitions: Iterable[TopicPartition],
    context: object,
) -> Request:
    """Return a request that adds partitions to a transaction (transactions V1)."""
    api = ApiKey.ADD_PARTITIONS_TO_TXN
    values = transactions.add_partitions(transaction, partitions)
    return _request(api, connection.version(api), values, context)


def abort(connection: Connection, transaction: OpenTransaction, context: object) -> Request:
    """Return a request that aborts a transaction."""
    api = ApiKey.END_TXN
    values = transactions.end_txn(transaction, commit=False)
    version = connection.version(api, transaction.version.end_txn_cap)
    return _request(api, version, values, context)


def _request(api: ApiKey, version: int, values: Values, context: object) -> Request:
    payload = build(request_type(api, version), values)
    return Request(api=api, version=version, body=[encode(payload)], context=context)


def error_code(response: Any | None) -> int:
    """Return the error code of a response; `disconnected` without a response."""
    return ClientErrorCode.disconnected if response is None else int(response.error_code)


def opened(response: Any, settings: TransactionSettings, connection: Connection) -> OpenTransaction:
    """Return the producer that InitProducerId has granted."""
    return OpenTransaction(
        transactional_id=settings.transactional_id,
        producer_id=int(response.producer_id),
        epoch=int(response.producer_epoch),
        version=connection.transaction_version,
    )


def coordinator(response: Any | None) -> tuple[int, Node | None]:
    """Return the error code of FindCoordinator, and the coordinator if the code is 0."""
    found = getattr(response, "coordinators", None)
    answer = found[0] if found else response
    code = error_code(answer)
    if answer is None or code:
        return code, None
    return code, Node(int(answer.node_id), str(answer.host), int(answer.port))


def partition_errors(response: Any) -> dict[TopicPartition, int]:
    """Return the error code of AddPartitionsToTxn for each partition."""
    return {
        TopicPartition(str(topic.name), int(result.partition_index)): int(
            result.partition_error_code
        )
        for topic in response.results_by_topic_v3_and_below
        for result in topic.results_by_partition
    }
