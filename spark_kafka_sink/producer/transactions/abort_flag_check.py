"""The check of the abort flag, a transactional id that exists if the driver has aborted the write.

The driver first creates the flag and then fences the producer ids that it finds. So a producer id
is either fenced, or it was granted after the flag was created and this check finds the flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.producer.transactions.coordinator_errors import error_code
from spark_kafka_sink.producer.transactions.coordinator_requests import negotiated_request
from spark_kafka_sink.producer.transactions.transaction_errors import aborted_write_error

if TYPE_CHECKING:
    from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
    from spark_kafka_sink.kafka.client.request import Request
    from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings


def flag_request(
    versions: NodeApiVersions, settings: TransactionSettings, context: object
) -> Request | None:
    """Return the request, or None if the broker does not support it (before Kafka 3.0)."""
    if ApiKey.DESCRIBE_TRANSACTIONS not in versions.ranges:
        return None
    values = {"transactional_ids": [settings.abort_flag]}
    return negotiated_request(versions, ApiKey.DESCRIBE_TRANSACTIONS, values, context)


def flag_failure_code(response: Any | None, settings: TransactionSettings) -> int:
    """Return the error code of a check that failed, or NONE if the flag does not exist.

    Raises:
        DeliveryError: the flag exists.
        ProtocolError: the response describes no transactional id.
    """
    if response is not None and not response.transaction_states:
        raise ProtocolError("a response to DescribeTransactions contains no transactional id")
    code = error_code(None if response is None else response.transaction_states[0])
    if code == ErrorCode.none:
        raise aborted_write_error(settings.transactional_id)
    return ErrorCode.none if code == ErrorCode.transactional_id_not_found else code
