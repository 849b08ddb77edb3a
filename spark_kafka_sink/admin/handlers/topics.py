"""Handlers for Metadata (topic descriptions), CreateTopics and DescribeConfigs.

A topic description contains partitions, replicas, and the operations that this client is allowed
(KIP-430). Describing a topic never creates it. Source: ``KafkaAdminClient.describeTopics``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_kafka_sink.admin.api_driver import Action, ApiHandler, KeyResult
from spark_kafka_sink.admin.call import only
from spark_kafka_sink.admin.handlers.actions import write
from spark_kafka_sink.protocol.error_codes import CONNECTION_LOST, ErrorCode
from spark_kafka_sink.protocol.versions import ApiKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.admin.call import Answer


_MANY = 1_000
_NOT_TOLD = -(2**31)
"""An operations field without a value: it was not requested, or the broker does not support it."""
_TOPIC_RETRIED = CONNECTION_LOST | {ErrorCode.leader_not_available}


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """One partition; `leader` is -1 if it has none, `replicas` and `in_sync` are broker ids."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """An existing topic.

    `operations` and `cluster_operations` are bit fields of AclOperation codes, None if the broker
    does not return them: before Kafka 2.3, and for the cluster since 2.8.
    """

    name: str
    partitions: tuple[PartitionDescription, ...]
    operations: int | None = None
    cluster_operations: int | None = None


class DescribeTopicsHandler(ApiHandler[str, TopicDescription]):
    """Describes topics by name; a missing topic has UNKNOWN_TOPIC_OR_PARTITION."""

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
        return Action.LOOK_UP if code in _TOPIC_RETRIED else Action.DONE


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


K = TypeVar("K", bound=Hashable)

_CREATE_TIMEOUT = timedelta(seconds=30)
_DEFAULTS = 4
"""The first version of CreateTopics that can request the broker's num.partitions and
default.replication.factor; before, 1 is used instead."""
_RETRIED = CONNECTION_LOST | {
    ErrorCode.not_controller,
    ErrorCode.request_timed_out,
    ErrorCode.throttling_quota_exceeded,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; `partitions` and `replication` are None for the brokers' defaults."""

    name: str
    replication: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = 1


class CreateTopicsHandler(ApiHandler[str, None]):
    """Creates topics; the keys are their names.

    Args:
        topics: the topics to create.
        validate_only: only check whether they could be created.
    """

    api = ApiKey.CREATE_TOPICS

    def __init__(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._validate_only = validate_only

    def body(self, keys: Sequence[str], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        topics = [self._values(self._topics[key], version) for key in keys]
        values = {
            "topics": topics,
            "timeout": _CREATE_TIMEOUT,
            "validate_only": self._validate_only,
        }
        return write(self.api, version, values)

    def results(
        self,
        keys: Sequence[str],  # noqa: ARG002
        answer: Answer,
    ) -> Mapping[str, KeyResult[None]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        return {
            told.name: KeyResult(
                code=int(told.error_code),
                message=getattr(told, "error_message", None),
                node=answer.node,
            )
            for told in response.topics
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`: any broker forwards the request, except with ZooKeeper."""
        return Action.LOOK_UP if code in _RETRIED else Action.DONE

    @staticmethod
    def _values(topic: NewTopic, version: int) -> dict[str, Any]:
        default = -1 if version >= _DEFAULTS else 1
        return {
            "name": topic.name,
            "num_partitions": default if topic.partitions is None else topic.partitions,
            "replication_factor": default if topic.replication is None else topic.replication,
            "assignments": [],
            "configs": [{"name": key, "value": topic.configs[key]} for key in topic.configs],
        }


class ConfigResource(IntEnum):
    """Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4


class DescribeConfigsHandler(ApiHandler[K, Mapping[str, str | None]], Generic[K]):
    """Reads settings of topics or brokers; the keys are topic names or broker ids.

    Args:
        resource: the kind of resource.
        names: the names of the settings.
    """

    api = ApiKey.DESCRIBE_CONFIGS

    def __init__(self, resource: ConfigResource, names: Sequence[str]) -> None:
        self._resource = resource
        self._names = names

    def body(self, keys: Sequence[K], version: int) -> list[Buffer]:
        """See `ApiHandler`."""
        resource = {
            "resource_type": int(self._resource),
            "resource_name": str(keys[0]),
            "configuration_keys": self._names,
        }
        return write(self.api, version, {"resources": [resource]})

    def results(
        self, keys: Sequence[K], answer: Answer
    ) -> Mapping[K, KeyResult[Mapping[str, str | None]]]:
        """See `ApiHandler`."""
        response: Any = answer.response
        told = only(response.results, answer)
        code = int(told.error_code)
        values = {config.name: config.value for config in told.configs}
        return {
            keys[0]: KeyResult(
                code=code,
                value=None if code else values,
                message=told.error_message,
                node=answer.node,
            )
        }

    def action(self, code: int) -> Action:
        """See `ApiHandler`."""
        return Action.LOOK_UP if code in _RETRIED else Action.DONE
