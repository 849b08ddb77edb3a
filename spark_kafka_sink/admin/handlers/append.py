"""AddPartitionsToTxn and Produce, as one appends a few batches in a transaction (KIP-98, KIP-890).

Source: ``TransactionManager``, ``Sender``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.call import only
from spark_kafka_sink.admin.handlers.actions import COORDINATOR_ACTIONS, leader_action
from spark_kafka_sink.admin.handlers.body import write
from spark_kafka_sink.client.topic_partition import TopicPartition
from spark_kafka_sink.protocol.error_codes import ErrorCode
from spark_kafka_sink.protocol.produce.request_writer import (
    PartitionData,
    ProduceHead,
    TopicData,
    produce_body,
)
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.call import Answer
    from spark_kafka_sink.protocol.open_transaction import OpenTransaction

_ALL = -1
_WITHOUT_TOPIC_IDS = 12
_NOT_ADDED_YET = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)
"""The leader could not tell the coordinator of the transaction (KIP-890)."""


class AddPartitionsHandler(ApiHandler[str, None]):
    """Adds one partition to a transaction of V1; the key is its transactional id."""

    api = ApiKey.ADD_PARTITIONS_TO_TXN

    def __init__(self, owner: OpenTransaction, partition: TopicPartition) -> None:
        self._owner = owner
        self._partition = partition

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        topic = {"name": self._partition.topic, "partitions": [self._partition.partition]}
        values = {
            "v3_and_below_transactional_id": keys[0],
            "v3_and_below_producer_id": self._owner.producer_id,
            "v3_and_below_producer_epoch": self._owner.epoch,
            "v3_and_below_topics": [topic],
        }
        return write(self.api, version, values)

    def results(self, keys: Sequence[str], answer: Answer) -> Mapping[str, KeyResult[None]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        topic = only(response.results_by_topic_v3_and_below, answer)
        told = only(topic.results_by_partition, answer)
        return {keys[0]: KeyResult(code=int(told.partition_error_code), node=answer.node)}

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        is_new = code == ErrorCode.unknown_topic_or_partition
        return Action.RETRY if is_new else COORDINATOR_ACTIONS.get(code, Action.DONE)


class ProduceHandler(ApiHandler[TopicPartition, int]):
    """One batch for one partition, in a transaction; the value is its first offset.

    It may be sent again: the leader knows a batch by producer id, epoch and sequences.
    """

    api = ApiKey.PRODUCE

    def __init__(
        self, client: BlockingClient, owner: OpenTransaction, batch: Sequence[Buffer]
    ) -> None:
        self._client = client
        self._owner = owner
        self._batch = batch

    def cap(self, keys: Sequence[TopicPartition]) -> int | None:
        """See `ApiHandler`."""
        cap = self._owner.version.produce_cap
        has_id = self._topic(keys[0]).topic_id is not None
        return cap if cap is not None or has_id else _WITHOUT_TOPIC_IDS

    def body(self, keys: Sequence[TopicPartition], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        head = ProduceHead(
            version=version,
            transactional_id=self._owner.transactional_id,
            acks=_ALL,
            timeout_ms=self._client.config.request_timeout_ms,
        )
        size = sum(memoryview(part).nbytes for part in self._batch)
        data = PartitionData(keys[0].partition, self._batch, size)
        topic = self._topic(keys[0])
        return produce_body(head, [TopicData(topic.name, topic.topic_id, [data])])

    def results(
        self, keys: Sequence[TopicPartition], answer: Answer
    ) -> Mapping[TopicPartition, KeyResult[int]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        told = only(only(response.responses, answer).partition_responses, answer)
        return {
            keys[0]: KeyResult(
                code=int(told.error_code),
                value=int(told.base_offset),
                message=getattr(told, "error_message", None),
                node=answer.node,
            )
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return Action.RETRY if code in _NOT_ADDED_YET else leader_action(code)

    def _topic(self, key: TopicPartition) -> Any:
        return self._client.cluster.topics[key.topic]
