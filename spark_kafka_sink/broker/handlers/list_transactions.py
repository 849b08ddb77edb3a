"""ListTransactions 0-2: the transactional ids that the asked node coordinates (KIP-664).

Filters by state and producer id, since version 1 by how long they are open (KIP-994), since
version 2 by a regular expression that has to match the whole id (KIP-1152).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.transaction_state import TransactionState
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_metadata import TransactionMetadata


def handle(context: RequestContext) -> Answer:
    """Handle the ListTransactions API."""
    try:
        pattern = re.compile(context.get("transactional_id_pattern", None) or ".*", re.DOTALL)
    except re.error:
        return {"error_code": ErrorCode.invalid_regular_expression}
    found = [
        txn
        for txn in context.cluster.transaction_coordinator.all()
        if context.cluster.coordinator(txn.id).id == context.node
        and pattern.fullmatch(txn.id)
        and _wanted(context, txn)
    ]
    return {
        "unknown_state_filters": _unknown(context),
        "transaction_states": [
            {
                "transactional_id": txn.id,
                "producer_id": txn.producer_id,
                "transaction_state": str(txn.state),
            }
            for txn in found
        ],
    }


def _unknown(context: RequestContext) -> list[str]:
    known = set(TransactionState) - {TransactionState.UNKNOWN}
    return [state for state in context.request.state_filters if state not in known]


def _wanted(context: RequestContext, txn: TransactionMetadata) -> bool:
    request = context.request
    open_ms = context.cluster.clock.wall_ms() - txn.started_ms
    return (
        (not request.state_filters or txn.state in request.state_filters)
        and (not request.producer_id_filters or txn.producer_id in request.producer_id_filters)
        and open_ms > context.get("duration_filter", -1)
    )


HANDLER = Handler(api=ApiKey.LIST_TRANSACTIONS, versions=VersionRange(0, 2), handle=handle)
