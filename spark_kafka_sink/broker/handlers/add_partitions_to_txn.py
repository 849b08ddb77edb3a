"""AddPartitionsToTxn 0-5: partitions become part of a transaction before they are written to.

Versions up to 3 are the clients', for one transaction. Since version 4 there may be many, and
`verify_only` asks whether the partitions are part of it already (KIP-890). If one partition does
not exist none is added: OPERATION_NOT_ATTEMPTED for the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.coordinator.transaction_metadata import ProducerIdAndEpoch
from spark_kafka_sink.broker.handlers.lookup import coordinates
from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

if TYPE_CHECKING:
    from spark_kafka_sink.broker.coordinator.transaction_metadata import Place
    from spark_kafka_sink.protocol.message_builder import Values

FENCED_VERSION = 2
"""Since then clients know PRODUCER_FENCED."""
BATCHED_VERSION = 4


def handle(call: RequestContext) -> Answer:
    """See the module."""
    request = call.request
    if call.version >= BATCHED_VERSION:
        results = [_transaction(call, item) for item in request.transactions]
        return {"results_by_transaction": results}
    transactional_id = request.v3_and_below_transactional_id
    claim = ProducerIdAndEpoch(
        request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
    )
    places = _places(request.v3_and_below_topics)

    def add() -> dict[Place, ErrorCode]:
        error = call.cluster.transactions.add(transactional_id, claim, places)
        if error is ErrorCode.producer_fenced and call.version < FENCED_VERSION:
            error = ErrorCode.invalid_producer_epoch
        return dict.fromkeys(places, error)

    errors = _unservable(call, transactional_id, places) or add()
    return {"results_by_topic_v3_and_below": _results(request.v3_and_below_topics, errors)}


def _transaction(call: RequestContext, item: Any) -> Values:
    claim = ProducerIdAndEpoch(item.producer_id, item.producer_epoch)
    places = _places(item.topics)
    errors = _unservable(call, item.transactional_id, places)
    if not errors and item.verify_only:
        verify = call.cluster.transactions.verify
        errors = {place: verify(item.transactional_id, claim, place) for place in places}
    elif not errors:
        error = call.cluster.transactions.add(item.transactional_id, claim, places)
        errors = dict.fromkeys(places, error)
    return {
        "transactional_id": item.transactional_id,
        "topic_results": _results(item.topics, errors),
    }


def _places(topics: Any) -> list[Place]:
    return [(topic.name, index) for topic in topics for index in topic.partitions]


def _unservable(
    call: RequestContext, transactional_id: str, places: list[Place]
) -> dict[Place, ErrorCode]:
    """Errors that keep all from being added; empty if there are none."""
    found = {name: call.cluster.topics.named(name) for name, _ in places}
    missing = {
        (name, index)
        for name, index in places
        if (topic := found[name]) is None or topic.partition(index) is None
    }
    if missing:
        return {
            place: ErrorCode.unknown_topic_or_partition
            if place in missing
            else ErrorCode.operation_not_attempted
            for place in places
        }
    error = coordinates(call, transactional_id)
    return dict.fromkeys(places, error) if error else {}


def _results(topics: Any, errors: dict[Place, ErrorCode]) -> list[Values]:
    return [
        {
            "name": topic.name,
            "results_by_partition": [
                {"partition_index": index, "partition_error_code": errors[topic.name, index]}
                for index in topic.partitions
            ],
        }
        for topic in topics
    ]


HANDLER = Handler(api=ApiKey.ADD_PARTITIONS_TO_TXN, versions=VersionRange(0, 5), handle=handle)
