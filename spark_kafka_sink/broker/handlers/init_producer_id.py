"""InitProducerId 0-5: without a transactional id, a new producer id at epoch 0 (KIP-98).

With a transactional id: its producer id at the next epoch, which fences its older producers. A
transaction that they left open is aborted first, and CONCURRENT_TRANSACTIONS asks to come again.
Since version 3 a producer may name the id and epoch that it has (KIP-360): it is refused if
there is a newer one. Without a transactional id that is ignored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.transaction_metadata import (
    NO_EPOCH,
    NO_ID,
    ProducerIdAndEpoch,
)
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.broker.handlers.request_lookups import check_transaction_coordinator
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_coordinator import ProducerIdOrError

FENCED_VERSION = 4
"""Since then clients know PRODUCER_FENCED."""


def handle(context: RequestContext) -> Answer:
    """Handle the InitProducerId API."""
    expected = ProducerIdAndEpoch(
        context.get("producer_id", NO_ID), context.get("producer_epoch", NO_EPOCH)
    )
    if (expected.producer_id == NO_ID) != (expected.epoch == NO_EPOCH):
        return _refused(ErrorCode.invalid_request)
    transactional_id = context.request.transactional_id
    if transactional_id is None:
        return {"producer_id": context.cluster.new_producer_id(), "producer_epoch": 0}
    named = _initialize(context, None if expected.producer_id == NO_ID else expected)
    if isinstance(named, ProducerIdAndEpoch):
        return {"producer_id": named.producer_id, "producer_epoch": named.epoch}
    if named is ErrorCode.producer_fenced and context.version < FENCED_VERSION:
        return _refused(ErrorCode.invalid_producer_epoch)
    return _refused(named)


def _initialize(context: RequestContext, expected: ProducerIdAndEpoch | None) -> ProducerIdOrError:
    transactional_id = context.request.transactional_id
    if error := check_transaction_coordinator(context, transactional_id):
        return error
    timeout_ms = round(context.request.transaction_timeout.total_seconds() * 1000)
    return context.cluster.transaction_coordinator.initialize(
        transactional_id, expected, timeout_ms
    )


def _refused(error: ErrorCode) -> Answer:
    return {"error_code": error, "producer_id": NO_ID, "producer_epoch": NO_EPOCH}


HANDLER = Handler(api=ApiKey.INIT_PRODUCER_ID, versions=VersionRange(0, 5), handle=handle)
