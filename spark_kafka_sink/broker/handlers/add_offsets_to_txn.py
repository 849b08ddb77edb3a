"""AddOffsetsToTxn 0-4: a group's offsets become part of a transaction (KIP-98).

Clients of transactions V2 leave it out: their TxnOffsetCommit does it.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.transaction_metadata import ProducerIdAndEpoch
from spark_kafka_sink.broker.coordinator.transactional_offsets import OFFSETS_PARTITION
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import check_transaction_coordinator
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

FENCED_VERSION = 2
"""Since then clients know PRODUCER_FENCED."""


def handle(context: RequestContext) -> Answer:
    """Handle the AddOffsetsToTxn API."""
    request = context.request
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    error = check_transaction_coordinator(context, request.transactional_id)
    error = error or context.cluster.transaction_coordinator.add(
        request.transactional_id, producer, [OFFSETS_PARTITION]
    )
    if error is ErrorCode.producer_fenced and context.version < FENCED_VERSION:
        error = ErrorCode.invalid_producer_epoch
    return {"error_code": error}


HANDLER = Handler(api=ApiKey.ADD_OFFSETS_TO_TXN, versions=VersionRange(0, 4), handle=handle)
