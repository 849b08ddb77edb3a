"""Build a Produce request from drained batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Acks, Codec
from spark_kafka_sink.kafka.client.request import Request
from spark_kafka_sink.kafka.protocol import produce
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.versions import (
    PRODUCE_ADDS_PARTITIONS,
    PRODUCE_WITH_TOPIC_IDS,
    ApiKey,
)

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import ProducerConfig
    from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot
    from spark_kafka_sink.kafka.client.node_api_versions import NodeApiVersions
    from spark_kafka_sink.producer.send.session_partitions import DrainedBatch
    from spark_kafka_sink.producer.transactions.transaction_manager import TransactionManager


_ZSTD_VERSION = 7
"""First version of Produce that allows zstd batches (KIP-110)."""


def produce_request(
    config: ProducerConfig,
    versions: NodeApiVersions,
    cluster: ClusterSnapshot,
    batches: list[DrainedBatch],
    transaction_manager: TransactionManager | None = None,
) -> Request:
    """Return a request with one batch per partition, and the batches as its context.

    In a transaction, the batches are marked transactional and the request contains the
    transactional id.

    Raises:
        ProtocolError: the broker supports no Produce version that can send these batches.
    """
    by_topic: dict[str, list[produce.PartitionData]] = {}
    for _, batch in batches:
        buffers = batch.encode(transactional=transaction_manager is not None)
        data = produce.PartitionData(batch.topic_partition.partition, buffers, batch.size)
        by_topic.setdefault(batch.topic_partition.topic, []).append(data)
    topics = [
        produce.TopicData(name, cluster.topics[name].topic_id, data)
        for name, data in by_topic.items()
    ]
    has_ids = all(topic.topic_id is not None for topic in topics)
    cap = None if has_ids else PRODUCE_WITH_TOPIC_IDS - 1
    transactional_id = None
    if transaction_manager is not None:
        transactional_id = transaction_manager.settings.transactional_id
        cap = transaction_manager.version.max_version(ApiKey.PRODUCE) or cap
    version = versions.latest_usable(ApiKey.PRODUCE, cap)
    if transaction_manager is not None and not (
        transaction_manager.version.needs_add_partitions or version >= PRODUCE_ADDS_PARTITIONS
    ):
        raise ProtocolError(
            f"the cluster has finalized transaction.version 2, but this broker supports only "
            f"Produce {version}, which does not add partitions to a transaction",
            kafka_error=error_name(ErrorCode.unsupported_version),
            hint="Run the same release on every broker.",
        )
    if version < _ZSTD_VERSION and any(batch.codec is Codec.ZSTD for _, batch in batches):
        raise ProtocolError(
            f"the broker does not support zstd: its latest Produce version is {version}",
            kafka_error=error_name(ErrorCode.unsupported_compression_type),
            hint="Choose another kafka.compression.type: zstd needs Kafka 2.1 or later.",
        )
    return Request(
        api=ApiKey.PRODUCE,
        version=version,
        body=produce.produce_body(
            version,
            topics,
            transactional_id=transactional_id,
            acks=int(config.acks),
            timeout_ms=config.request_timeout_ms,
        ),
        context=batches,
        reader=produce.produce_response_reader(version),
        expects_response=config.acks is not Acks.NONE,
    )
