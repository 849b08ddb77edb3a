"""The producers that partitions' leaders remember. Source: ``DescribeProducersHandler``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.handlers.actions import leader_action
from spark_kafka_sink.admin.handlers.body import write
from spark_kafka_sink.admin.transaction_states import ActiveProducer
from spark_kafka_sink.client.topic_partition import TopicPartition
from spark_kafka_sink.protocol.transaction_requests import by_topic
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.call import Answer

_MANY = 1_000
_NO_OFFSET = -1


class DescribeProducersHandler(ApiHandler[TopicPartition, tuple[ActiveProducer, ...]]):
    """The producers that partitions' leaders remember."""

    api = ApiKey.DESCRIBE_PRODUCERS

    def keys_per_request(self, version: int | None) -> int:  # noqa: ARG002
        """See `ApiHandler`."""
        return _MANY

    def body(self, keys: Sequence[TopicPartition], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        return write(self.api, version, {"topics": by_topic(keys, "partition_indexes")})

    def results(
        self,
        keys: Sequence[TopicPartition],  # noqa: ARG002
        answer: Answer,
    ) -> Mapping[TopicPartition, KeyResult[tuple[ActiveProducer, ...]]]:
        """See `ApiHandler`."""
        return {
            TopicPartition(topic.name, int(told.partition_index)): KeyResult(
                code=int(told.error_code),
                value=tuple(_active_producer(one) for one in told.active_producers),
                message=told.error_message,
                node=answer.node,
            )
            for topic in _topics(answer)
            for told in topic.partitions
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return leader_action(code)


def _topics(answer: Answer) -> Any:
    response: Any = answer.response
    return response.topics


def _active_producer(told: Any) -> ActiveProducer:
    start = int(told.current_txn_start_offset)
    return ActiveProducer(
        producer_id=int(told.producer_id),
        epoch=int(told.producer_epoch),
        last_sequence=int(told.last_sequence),
        last_timestamp_ms=int(told.last_timestamp),
        coordinator_epoch=int(told.coordinator_epoch),
        transaction_start=None if start == _NO_OFFSET else start,
    )
