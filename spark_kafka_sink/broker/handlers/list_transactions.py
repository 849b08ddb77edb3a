"""ListTransactions 0-2: the transactional ids that the asked node looks after (KIP-664).

Filters by state and producer id, since version 1 by how long they are open (KIP-994), since
version 2 by a regular expression that has to match the whole id (KIP-1152).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.transaction_metadata import TransactionState
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_metadata import Transaction


def handle(call: RequestContext) -> Answer:
    """See the module."""
    try:
        pattern = re.compile(call.get("transactional_id_pattern", None) or ".*", re.DOTALL)
    except re.error:
        return {"error_code": ErrorCode.invalid_regular_expression}
    found = [
        txn
        for txn in call.cluster.transactions.all()
        if call.cluster.coordinator(txn.id).id == call.node
        and pattern.fullmatch(txn.id)
        and _wanted(call, txn)
    ]
    return {
        "unknown_state_filters": _unknown(call),
        "transaction_states": [
            {
                "transactional_id": txn.id,
                "producer_id": txn.producer_id,
                "transaction_state": str(txn.state),
            }
            for txn in found
        ],
    }


def _unknown(call: RequestContext) -> list[str]:
    known = set(TransactionState)
    return [state for state in call.request.state_filters if state not in known]


def _wanted(call: RequestContext, txn: Transaction) -> bool:
    request = call.request
    open_ms = call.cluster.clock.wall_ms() - txn.started_ms
    return (
        (not request.state_filters or txn.state in request.state_filters)
        and (not request.producer_id_filters or txn.producer_id in request.producer_id_filters)
        and open_ms > call.get("duration_filter", -1)
    )


HANDLER = Handler(api=ApiKey.LIST_TRANSACTIONS, versions=VersionRange(0, 2), handle=handle)
