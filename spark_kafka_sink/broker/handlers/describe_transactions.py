"""DescribeTransactions 0-0: state, producer and partitions of transactional ids (KIP-664)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import check_transaction_coordinator
from spark_kafka_sink.protocol.primitives import timestamp
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_metadata import TransactionMetadata
    from spark_kafka_sink.protocol.message_builder import Values

_NOTHING = {"transaction_state": "", "producer_id": 0, "producer_epoch": 0}


def handle(context: RequestContext) -> Answer:
    """Handle the DescribeTransactions API."""
    names = context.request.transactional_ids
    return {"transaction_states": [_describe(context, name) for name in names]}


def _describe(context: RequestContext, name: str) -> Values:
    error = check_transaction_coordinator(context, name) if name else ErrorCode.invalid_request
    txn = context.cluster.transaction_coordinator.find(name)
    if error or txn is None:
        missing = error or ErrorCode.transactional_id_not_found
        return _NOTHING | {"transactional_id": name, "error_code": missing}
    return {
        "transactional_id": name,
        "transaction_state": str(txn.state),
        "transaction_timeout": timedelta(milliseconds=txn.timeout_ms),
        "transaction_start_time": timestamp(txn.started_ms),
        "producer_id": txn.producer_id,
        "producer_epoch": txn.epoch,
        "topics": _topics(txn),
    }


def _topics(txn: TransactionMetadata) -> list[Values]:
    found: dict[str, list[int]] = {}
    for name, index in sorted(txn.partitions):
        found.setdefault(name, []).append(index)
    return [{"topic": name, "partitions": indexes} for name, indexes in found.items()]


HANDLER = Handler(api=ApiKey.DESCRIBE_TRANSACTIONS, versions=VersionRange(0, 0), handle=handle)
