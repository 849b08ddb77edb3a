"""Building a Produce request from the batches drained for one broker, and reading its response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.client.request import Request
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Acks, Codec
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.protocol.produce.request_writer import (
    PartitionData,
    ProduceHead,
    TopicData,
    produce_body,
)
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from spark_kafka_sink.client.cluster import Cluster
    from spark_kafka_sink.client.connection import Connection
    from spark_kafka_sink.config.model import ProducerConfig
    from spark_kafka_sink.producer.send.in_flight import DrainedBatch
    from spark_kafka_sink.producer.transactions.manager import TransactionManager

_WITHOUT_TOPIC_IDS = 12
_ADDS_PARTITIONS = 12
"""The first version of Produce that takes its partitions into the transaction (KIP-890)."""
_ZSTD = 7
"""The first version of Produce in which batches may be compressed with zstd (KIP-110)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResponse:
    """What a Produce response says of one partition; `leader` is -1 where it names none.

    `append_time` is LogAppendTime in milliseconds, None where the topic keeps CreateTime.
    """

    code: int
    base_offset: int = -1
    append_time: int | None = None
    message: str | None = None
    leader: int = -1
    leader_epoch: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()


def produce_request(
    config: ProducerConfig,
    connection: Connection,
    cluster: Cluster,
    drained: list[DrainedBatch],
    transactions: TransactionManager | None = None,
) -> Request:
    """One request with one batch per partition; its context is the list of drained.

    In a transaction the batches say so, and the request names it.

    Raises:
        ProtocolError: the broker is too old for these batches, or for this client.
    """
    by_topic: dict[str, list[PartitionData]] = {}
    for _, batch in drained:
        batch.topic_id = cluster.topics[batch.partition.topic].topic_id
        parts = batch.encode(transactional=transactions is not None)
        data = PartitionData(batch.partition.partition, parts, batch.size)
        by_topic.setdefault(batch.partition.topic, []).append(data)
    topics = [
        TopicData(name, cluster.topics[name].topic_id, data) for name, data in by_topic.items()
    ]
    has_ids = all(topic.topic_id is not None for topic in topics)
    cap = None if has_ids else _WITHOUT_TOPIC_IDS
    if transactions is not None:
        cap = transactions.version.produce_cap or cap
    version = connection.version(ApiKey.PRODUCE, cap)
    if transactions is not None and not (
        transactions.version.needs_add_partitions or version >= _ADDS_PARTITIONS
    ):
        raise ProtocolError(
            f"the cluster has finalized transaction.version, and a broker of it speaks Produce "
            f"{version}, which adds no partitions to a transaction",
            error=error_name(ErrorCode.unsupported_version),
            hint="run the same release on every broker",
        )
    if version <= _WITHOUT_TOPIC_IDS:
        for _, batch in drained:
            batch.by_name = True
    if version < _ZSTD and any(batch.codec is Codec.ZSTD for _, batch in drained):
        raise ProtocolError(
            f"the broker takes no batches compressed with zstd: Produce {version} is its newest",
            error=error_name(ErrorCode.unsupported_compression_type),
            hint="zstd needs Kafka 2.1 or later: choose another kafka.compression.type",
        )
    head = ProduceHead(
        version=version,
        transactional_id=None if transactions is None else transactions.settings.transactional_id,
        acks=int(config.acks),
        timeout_ms=config.request_timeout_ms,
    )
    return Request(
        api=ApiKey.PRODUCE,
        version=version,
        body=produce_body(head, topics),
        context=drained,
        expects_response=config.acks is not Acks.NONE,
    )


def read_responses(
    response: Any, drained: list[DrainedBatch]
) -> dict[tuple[str, int], PartitionResponse]:
    """Each partition's response, by topic name and partition."""
    # By the ids that were sent: the cluster may have lost sight of a topic since.
    names = {batch.topic_id: batch.partition.topic for _, batch in drained}
    responses: dict[tuple[str, int], PartitionResponse] = {}
    for topic in response.responses:
        name = getattr(topic, "name", None) or names.get(getattr(topic, "topic_id", None))
        for partition in topic.partition_responses:
            if name is not None:
                responses[name, int(partition.index)] = _partition_response(partition)
    return responses


def _partition_response(partition: Any) -> PartitionResponse:
    hint = getattr(partition, "current_leader", None)
    errors = getattr(partition, "record_errors", ())
    appended = partition.log_append_time
    return PartitionResponse(
        code=int(partition.error_code),
        base_offset=int(partition.base_offset),
        append_time=None if appended is None else round(appended.timestamp() * 1000),
        message=getattr(partition, "error_message", None),
        leader=-1 if hint is None else int(hint.leader_id),
        leader_epoch=-1 if hint is None else int(hint.leader_epoch),
        record_errors=tuple((int(e.batch_index), e.batch_index_error_message) for e in errors),
    )
