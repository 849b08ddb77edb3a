"""DescribeTransactions, ListTransactions and DescribeProducers (KIP-664).

ListTransactions 0-2: the transactional ids that the node coordinates which received the request.
Filters by state and producer id; since version 1 by how long transactions have been open (KIP-994);
since version 2 by a regular expression that must match the whole id (KIP-1152).

DescribeTransactions 0 returns the state of transactional ids, DescribeProducers 0 the producers of
partitions that have a replica on the node.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import (
    Answer,
    Handler,
    RequestContext,
    check_transaction_coordinator,
    topic_of,
)
from spark_kafka_sink.protocol.codec import timestamp
from spark_kafka_sink.protocol.transactions import TransactionState
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_state import TransactionMetadata
    from spark_kafka_sink.broker.partition.partition import Partition
    from spark_kafka_sink.protocol.messages import Values


_NOTHING = {"transaction_state": "", "producer_id": 0, "producer_epoch": 0}


def describe_transactions(context: RequestContext) -> Answer:
    """Handle the DescribeTransactions API."""
    names = context.request.transactional_ids
    return {"transaction_states": [_describe_transaction(context, name) for name in names]}


def _describe_transaction(context: RequestContext, name: str) -> Values:
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


DESCRIBE_TRANSACTIONS = Handler(
    api=ApiKey.DESCRIBE_TRANSACTIONS, versions=VersionRange(0, 0), handle=describe_transactions
)


def list_transactions(context: RequestContext) -> Answer:
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


LIST_TRANSACTIONS = Handler(
    api=ApiKey.LIST_TRANSACTIONS, versions=VersionRange(0, 2), handle=list_transactions
)


NO_OFFSET = -1


def describe_producers(context: RequestContext) -> Answer:
    """Handle the DescribeProducers API."""
    return {
        "topics": [
            {
                "name": item.name,
                "partitions": [
                    _describe_partition(context, item, index) for index in item.partition_indexes
                ],
            }
            for item in context.request.topics
        ]
    }


def _describe_partition(context: RequestContext, item: Any, index: int) -> Values:
    topic = topic_of(context, item)
    partition = topic.partition(index) if topic else None
    if partition is None:
        error = ErrorCode.unknown_topic_or_partition
        return {"partition_index": index, "error_code": error, "active_producers": []}
    if context.node not in partition.replicas:
        error = ErrorCode.not_leader_or_follower
        return {"partition_index": index, "error_code": error, "active_producers": []}
    return {"partition_index": index, "active_producers": _producers(partition)}


def _producers(partition: Partition) -> list[Values]:
    return [
        {
            "producer_id": producer_id,
            "producer_epoch": entry.epoch,
            "last_sequence": entry.last_sequence,
            "last_timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "current_txn_start_offset": partition.transactions.ongoing.get(producer_id, NO_OFFSET),
        }
        for producer_id, entry in partition.producers.entries.items()
    ]


DESCRIBE_PRODUCERS = Handler(
    api=ApiKey.DESCRIBE_PRODUCERS, versions=VersionRange(0, 0), handle=describe_producers
)
