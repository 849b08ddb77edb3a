"""What a broker tells of topics: partitions, replicas, and what this client may do (KIP-430).

Source: ``KafkaAdminClient.describeTopics``. No topic is created by asking.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.handlers.body import write
from spark_kafka_sink.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.call import Answer

_MANY = 1_000
_NOT_TOLD = -(2**31)
"""An operations field that the broker leaves alone: it was not asked, or can't tell."""
_AGAIN = frozenset(
    {ClientErrorCode.disconnected, ClientErrorCode.not_sent, ErrorCode.leader_not_available}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition; `leader` is -1 where it has none, replicas are broker ids."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic that exists.

    `operations` and `cluster_operations` are bit fields of AclOperation's codes, None where the
    broker does not tell: before Kafka 2.3, and of the cluster from 2.8 on.
    """

    name: str
    partitions: tuple[PartitionDescription, ...]
    operations: int | None = None
    cluster_operations: int | None = None


class DescribeTopicsHandler(ApiHandler[str, TopicDescription]):
    """Topics by name; a topic that is not there has UNKNOWN_TOPIC_OR_PARTITION."""

    api = ApiKey.METADATA

    def keys_per_request(self, version: int | None) -> int:  # noqa: ARG002
        """See `ApiHandler`."""
        return _MANY

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        values = {
            "topics": [{"name": key} for key in keys],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": True,
            "include_cluster_authorized_operations": True,
        }
        return write(self.api, version, values)

    def results(
        self, keys: Sequence[str], answer: Answer
    ) -> Mapping[str, KeyResult[TopicDescription]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        cluster = _operations(response, "cluster_authorized_operations")
        wanted = frozenset(keys)
        return {
            told.name: KeyResult(
                code=int(told.error_code), value=_described(told, cluster), node=answer.node
            )
            for told in response.topics
            if told.name in wanted
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return Action.LOOK_UP if code in _AGAIN else Action.DONE


def _described(told: Any, cluster_operations: int | None) -> TopicDescription:
    partitions = [
        PartitionDescription(
            index=int(one.partition_index),
            leader=int(one.leader_id),
            replicas=tuple(map(int, one.replica_nodes)),
            in_sync=tuple(map(int, one.isr_nodes)),
        )
        for one in told.partitions
    ]
    return TopicDescription(
        name=told.name,
        partitions=tuple(sorted(partitions, key=lambda one: one.index)),
        operations=_operations(told, "topic_authorized_operations"),
        cluster_operations=cluster_operations,
    )


def _operations(message: Any, name: str) -> int | None:
    bits = getattr(message, name, _NOT_TOLD)
    return None if bits == _NOT_TOLD else int(bits)
