"""The requests about topics and configs, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.kafka.blocking.api_driver import MANY_KEYS, ApiHandler, KeyResult, only_item
from spark_kafka_sink.kafka.blocking.lookups import ControllerLookup, K, Lookup
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.acl import NO_OPERATIONS
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey

if TYPE_CHECKING:
    import uuid

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient, RequestCompletion
    from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
    from spark_kafka_sink.kafka.protocol.messages import FieldValues


ALL_TOPICS = ""
_RETRIABLE_AT_CONTROLLER = error_codes.CONNECTION_LOST | {
    ErrorCode.not_controller,
    ErrorCode.request_timed_out,
    ErrorCode.throttling_quota_exceeded,
}
_CREATE_TIMEOUT = timedelta(seconds=30)
_BROKER_DEFAULTS = 4
"""The first version of CreateTopics that can request the broker's num.partitions and
default.replication.factor; with older versions, 1 is used instead.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDescription:
    """A partition. Its leader and replicas are broker ids."""

    index: int
    leader: int
    """-1 if there is none."""
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """An existing topic."""

    name: str
    partitions: tuple[PartitionDescription, ...]
    topic_id: uuid.UUID | None = None
    """None before Kafka 2.8."""
    operations: int | None = None
    """Bit field of AclOperation codes; None before Kafka 2.3."""
    cluster_operations: int | None = None
    """Bit field of AclOperation codes; None before Kafka 2.3 and since 2.8."""


class DescribeTopicsHandler(ApiHandler[str, TopicDescription]):
    """Describes topics by name. The code for a missing topic is UNKNOWN_TOPIC_OR_PARTITION.

    Args:
        operations: True to request the operations for which this client is authorized.
    """

    api = ApiKey.METADATA
    lookup_codes = error_codes.CONNECTION_LOST | {ErrorCode.leader_not_available}
    max_keys = MANY_KEYS

    def __init__(self, *, operations: bool = False) -> None:
        self._with_operations = operations

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request for these topics, which does not create them."""
        return {
            "topics": [{"name": key} for key in keys],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": self._with_operations,
            "include_cluster_authorized_operations": self._with_operations,
        }

    def results(
        self, keys: Sequence[str], completion: RequestCompletion
    ) -> Mapping[str, KeyResult[TopicDescription]]:
        """Return the description of each topic."""
        cluster = _operations(completion.response, "cluster_authorized_operations")
        requested = frozenset(keys)
        return {
            topic.name: KeyResult(
                code=int(topic.error_code), value=_parse_description(topic, cluster)
            )
            for topic in completion.response.topics
            if topic.name in requested
        }


class ListTopicsHandler(ApiHandler[str, tuple[str, ...]]):
    """Lists the names of all topics. The only key is `ALL_TOPICS`."""

    api = ApiKey.METADATA
    lookup_codes = error_codes.CONNECTION_LOST

    def values(self, keys: Sequence[str], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request for all topics."""
        return {"topics": None, "allow_auto_topic_creation": False}

    def result(self, key: str, completion: RequestCompletion) -> KeyResult[tuple[str, ...]]:  # noqa: ARG002
        """Return the names of the topics that are not internal."""
        topics = completion.response.topics
        names = tuple(sorted(topic.name for topic in topics if not topic.is_internal))
        return KeyResult(code=0, value=names)


def _parse_description(topic: Any, cluster_operations: int | None) -> TopicDescription:
    partitions = [
        PartitionDescription(
            index=int(partition.partition_index),
            leader=int(partition.leader_id),
            replicas=tuple(map(int, partition.replica_nodes)),
            in_sync=tuple(map(int, partition.isr_nodes)),
        )
        for partition in topic.partitions
    ]
    return TopicDescription(
        name=topic.name,
        partitions=tuple(sorted(partitions, key=lambda partition: partition.index)),
        topic_id=getattr(topic, "topic_id", None),
        operations=_operations(topic, "topic_authorized_operations"),
        cluster_operations=cluster_operations,
    )


def _operations(message: Any, name: str) -> int | None:
    bits = getattr(message, name, NO_OPERATIONS)
    return None if bits == NO_OPERATIONS else int(bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create."""

    name: str
    replication: int | None = None
    """None for the brokers' default."""
    configs: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = 1
    """None for the brokers' default."""


class CreateTopicsHandler(ApiHandler[str, None]):
    """Creates topics. The keys are topic names.

    Args:
        topics: the topics to create.
        validate_only: True to check that the topics can be created, without creating them.
    """

    api = ApiKey.CREATE_TOPICS
    lookup_codes = _RETRIABLE_AT_CONTROLLER  # Only needed with ZooKeeper.

    def __init__(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._validate_only = validate_only

    def lookup(self, client: BlockingClient) -> Lookup[str]:
        """Return the lookup of the controller."""
        return ControllerLookup(client)

    def values(self, keys: Sequence[str], version: int) -> FieldValues:
        """Return the values of a request that creates these topics."""
        return {
            "topics": [self._topic_values(self._topics[key], version) for key in keys],
            "timeout": _CREATE_TIMEOUT,
            "validate_only": self._validate_only,
        }

    def result(self, key: str, completion: RequestCompletion) -> KeyResult[None]:  # noqa: ARG002
        """Return the error of the topic, if any."""
        topic = only_item(completion.response.topics, completion)
        message = getattr(topic, "error_message", None)
        return KeyResult(code=int(topic.error_code), message=message)

    @staticmethod
    def _topic_values(topic: NewTopic, version: int) -> dict[str, Any]:
        default = -1 if version >= _BROKER_DEFAULTS else 1
        return {
            "name": topic.name,
            "num_partitions": default if topic.partitions is None else topic.partitions,
            "replication_factor": default if topic.replication is None else topic.replication,
            "assignments": [],
            "configs": [{"name": name, "value": topic.configs[name]} for name in topic.configs],
        }


class DescribeConfigsHandler(ApiHandler[K, Mapping[str, str | None]]):
    """Reads all configs of topics or brokers. The keys are topic names or broker ids.

    As in Java's client, the request contains no names of configs: some brokers cannot parse them.

    Args:
        resource: the kind of resource.
    """

    api = ApiKey.DESCRIBE_CONFIGS
    lookup_codes = _RETRIABLE_AT_CONTROLLER

    def __init__(self, resource: ConfigResourceType) -> None:
        self._resource = resource

    def values(self, keys: Sequence[K], version: int) -> FieldValues:  # noqa: ARG002
        """Return the values of a request for all configs of a resource."""
        resource = {
            "resource_type": int(self._resource),
            "resource_name": str(keys[0]),
            "configuration_keys": None,
        }
        return {"resources": [resource]}

    def result(self, key: K, completion: RequestCompletion) -> KeyResult[Mapping[str, str | None]]:  # noqa: ARG002
        """Return the values of the configs by name."""
        resource = only_item(completion.response.results, completion)
        code = int(resource.error_code)
        values = {config.name: config.value for config in resource.configs}
        return KeyResult(code=code, value=None if code else values, message=resource.error_message)
