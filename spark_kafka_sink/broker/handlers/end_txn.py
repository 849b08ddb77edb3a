"""EndTxn 0-5: commit or abort.

Version 5 is that of transactions V2 (KIP-890): every end bumps the epoch, and the answer has it,
with a new producer id once the epochs are used up; a repetition gets the same answer. In older
versions the epoch stays.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.transaction_metadata import (
    NO_EPOCH,
    NO_ID,
    ProducerIdAndEpoch,
)
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import check_transaction_coordinator
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

FENCED_VERSION = 2
"""Since then clients know PRODUCER_FENCED."""
BUMPING_VERSION = 5


def handle(context: RequestContext) -> Answer:
    """Handle the EndTxn API."""
    request = context.request
    named = check_transaction_coordinator(
        context, request.transactional_id
    ) or context.cluster.transaction_coordinator.end(
        request.transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        commit=request.committed,
        bumps=context.version >= BUMPING_VERSION,
    )
    if isinstance(named, ProducerIdAndEpoch):
        return {"producer_id": named.producer_id, "producer_epoch": named.epoch}
    if named is ErrorCode.producer_fenced and context.version < FENCED_VERSION:
        named = ErrorCode.invalid_producer_epoch
    return {"error_code": named, "producer_id": NO_ID, "producer_epoch": NO_EPOCH}


HANDLER = Handler(api=ApiKey.END_TXN, versions=VersionRange(0, 5), handle=handle)
