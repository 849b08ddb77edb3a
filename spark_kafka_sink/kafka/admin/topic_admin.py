"""Create and describe topics, and read the configs of topics and brokers.

A topic description contains partitions, replicas, and the operations for which this client is
authorized (KIP-430). Describing a topic never creates it. Source:
``KafkaAdminClient.describeTopics``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.common.errors import ConfigError, KafkaProdError, ProtocolError
from spark_kafka_sink.kafka.admin.api_driver import (
    MANY_KEYS,
    ApiDriver,
    ApiHandler,
    KeyResult,
    only,
    request_one,
)
from spark_kafka_sink.kafka.admin.blocking_client import (
    BlockingClient,
    CallOutcome,
    denied,
    on_topic,
)
from spark_kafka_sink.kafka.admin.lookups import (
    BrokerLookup,
    ControllerLookup,
    K,
    LeaderLookup,
    Lookup,
)
from spark_kafka_sink.kafka.admin.partition_offsets import LATEST, ListOffsetsHandler
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from spark_kafka_sink.kafka.security.acl_commands import Acl

if TYPE_CHECKING:
    import uuid

    from spark_kafka_sink.kafka.protocol.messages import Values

CLEANUP: Final = "cleanup.policy"
COMPACT: Final = "compact"
_BROKERS_TIMEOUT_S: Final = 5.0
"""Seconds to wait for the configs of all brokers. Afterwards, one response is sufficient."""
_UNKNOWN_TOPIC_RETRY_S: Final = 2.0
"""Seconds for which UNKNOWN_TOPIC_OR_PARTITION is retried, because new topics propagate slowly."""
_ALL_TOPICS: Final = ""
_NO_OPERATIONS = -(2**31)
"""Value of an operations field that was not requested, or that the broker does not support."""
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
    """A partition. `leader` is a broker id, or -1; `replicas` and `in_sync` are broker ids."""

    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """An existing topic.

    `operations` and `cluster_operations` are bit fields of AclOperation codes. A field is None if
    the broker does not return it: brokers before Kafka 2.3 return neither field, and brokers since
    2.8 do not return `cluster_operations`. `topic_id` is None before Kafka 2.8.
    """

    name: str
    partitions: tuple[PartitionDescription, ...]
    topic_id: uuid.UUID | None = None
    operations: int | None = None
    cluster_operations: int | None = None


class DescribeTopicsHandler(ApiHandler[str, TopicDescription]):
    """Describes topics by name. The code for a missing topic is UNKNOWN_TOPIC_OR_PARTITION.

    Args:
        operations: True to request the operations for which this client is authorized.
    """

    api = ApiKey.METADATA
    looked_up = error_codes.CONNECTION_LOST | {ErrorCode.leader_not_available}
    max_keys = MANY_KEYS

    def __init__(self, *, operations: bool = False) -> None:
        self._operations = operations

    def values(self, keys: Sequence[str], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return {
            "topics": [{"name": key} for key in keys],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": self._operations,
            "include_cluster_authorized_operations": self._operations,
        }

    def results(
        self, keys: Sequence[str], outcome: CallOutcome
    ) -> Mapping[str, KeyResult[TopicDescription]]:
        """See `ApiHandler`."""
        cluster = _operations(outcome.response, "cluster_authorized_operations")
        requested = frozenset(keys)
        return {
            topic.name: KeyResult(code=int(topic.error_code), value=_description(topic, cluster))
            for topic in outcome.response.topics
            if topic.name in requested
        }


class ListTopicsHandler(ApiHandler[str, tuple[str, ...]]):
    """Lists the names of all topics. The only key is `_ALL_TOPICS`."""

    api = ApiKey.METADATA
    looked_up = error_codes.CONNECTION_LOST

    def values(self, keys: Sequence[str], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        return {"topics": None, "allow_auto_topic_creation": False}

    def result(self, key: str, outcome: CallOutcome) -> KeyResult[tuple[str, ...]]:  # noqa: ARG002
        """See `ApiHandler`."""
        topics = outcome.response.topics
        names = tuple(sorted(topic.name for topic in topics if not topic.is_internal))
        return KeyResult(code=0, value=names)


def _description(topic: Any, cluster_operations: int | None) -> TopicDescription:
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
    bits = getattr(message, name, _NO_OPERATIONS)
    return None if bits == _NO_OPERATIONS else int(bits)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. `partitions` and `replication` are None for the brokers' defaults."""

    name: str
    replication: int | None = None
    configs: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = 1


class CreateTopicsHandler(ApiHandler[str, None]):
    """Creates topics. The keys are topic names.

    Args:
        topics: the topics to create.
        validate_only: True to check that the topics can be created, without creating them.
    """

    api = ApiKey.CREATE_TOPICS
    looked_up = _RETRIABLE_AT_CONTROLLER  # Only needed with ZooKeeper.

    def __init__(self, topics: Sequence[NewTopic], *, validate_only: bool = False) -> None:
        self._topics = {topic.name: topic for topic in topics}
        self._validate_only = validate_only

    def lookup(self, client: BlockingClient) -> Lookup[str]:
        """See `ApiHandler`."""
        return ControllerLookup(client)

    def values(self, keys: Sequence[str], version: int) -> Values:
        """See `ApiHandler`."""
        return {
            "topics": [self._topic(self._topics[key], version) for key in keys],
            "timeout": _CREATE_TIMEOUT,
            "validate_only": self._validate_only,
        }

    def result(self, key: str, outcome: CallOutcome) -> KeyResult[None]:  # noqa: ARG002
        """See `ApiHandler`."""
        topic = only(outcome.response.topics, outcome)
        message = getattr(topic, "error_message", None)
        return KeyResult(code=int(topic.error_code), message=message)

    @staticmethod
    def _topic(topic: NewTopic, version: int) -> dict[str, Any]:
        default = -1 if version >= _BROKER_DEFAULTS else 1
        return {
            "name": topic.name,
            "num_partitions": default if topic.partitions is None else topic.partitions,
            "replication_factor": default if topic.replication is None else topic.replication,
            "assignments": [],
            "configs": [{"name": name, "value": topic.configs[name]} for name in topic.configs],
        }


class ConfigResource(IntEnum):
    """Kafka's ConfigResource.Type."""

    TOPIC = 2
    BROKER = 4


class DescribeConfigsHandler(ApiHandler[K, Mapping[str, str | None]]):
    """Reads all configs of topics or brokers. The keys are topic names or broker ids.

    As in Java's client, the request contains no names of configs: some brokers cannot parse them.

    Args:
        resource: the kind of resource.
    """

    api = ApiKey.DESCRIBE_CONFIGS
    looked_up = _RETRIABLE_AT_CONTROLLER

    def __init__(self, resource: ConfigResource) -> None:
        self._resource = resource

    def values(self, keys: Sequence[K], version: int) -> Values:  # noqa: ARG002
        """See `ApiHandler`."""
        resource = {
            "resource_type": int(self._resource),
            "resource_name": str(keys[0]),
            "configuration_keys": None,
        }
        return {"resources": [resource]}

    def result(self, key: K, outcome: CallOutcome) -> KeyResult[Mapping[str, str | None]]:  # noqa: ARG002
        """See `ApiHandler`."""
        resource = only(outcome.response.results, outcome)
        code = int(resource.error_code)
        values = {config.name: config.value for config in resource.configs}
        return KeyResult(code=code, value=None if code else values, message=resource.error_message)


class TopicAdmin:
    """Admin functions for topics.

    Deadlines are in seconds of the client's clock; None for no deadline.
    """

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def create_compacted(
        self,
        name: str,
        replication: int | None,
        configs: Mapping[str, str],
        deadline: float | None,
    ) -> bool:
        """Create a compacted topic with one partition unless it exists, and wait for its leader.

        Args:
            name: the topic's name.
            replication: the replication factor, or None for the brokers' default (1 before Kafka
                2.4).
            configs: the topic's configs; cleanup.policy defaults to "compact".
            deadline: time limit.

        Returns:
            True if this call has created the topic.

        Raises:
            ConfigError: the brokers reject a config, or the topic exists and is not compacted.
            AuthorizationError: an ACL is missing; the error contains it.
            BrokerUnavailableError: the deadline has passed.
        """
        topic = NewTopic(name=name, replication=replication, configs={CLEANUP: COMPACT, **configs})
        created = False
        while True:
            created = self._create(topic, deadline) or created
            if not created:
                self.check_compacted(name, configs, deadline)
            if self._is_served(name, deadline):
                return created

    def create(self, topic: NewTopic, deadline: float | None) -> bool:
        """Create a topic unless it exists, and wait until its leader responds.

        Returns:
            True if this call has created the topic.

        Raises:
            ConfigError: the brokers reject a config.
            AuthorizationError: an ACL is missing; the error contains it.
            BrokerUnavailableError: the deadline has passed.
        """
        if self._exists(topic.name, deadline):  # This requires no Create ACL.
            return False
        created = False
        while True:
            created = self._create(topic, deadline) or created
            if self._is_served(topic.name, deadline):
                return created

    def create_missing(
        self, topics: Sequence[NewTopic], deadline: float | None
    ) -> dict[str, KafkaProdError]:
        """Create all topics that do not exist, without waiting for their leaders.

        Returns:
            The reason for each topic that cannot be created, by name.

        Raises:
            BrokerUnavailableError: the deadline has passed.
        """
        if not topics:
            return {}
        names = [topic.name for topic in topics]
        results = self._describe(names, deadline, "describing topics")
        unknown = ErrorCode.unknown_topic_or_partition
        missing = [name for name in names if results[name].code == unknown]
        driver = ApiDriver(self._client, CreateTopicsHandler(topics), missing)
        created = driver.complete(deadline, "creating topics") if missing else {}
        return {
            name: self._rejection(name, result.code, result.message)
            for name, result in created.items()
            if result.code not in {ErrorCode.none, ErrorCode.topic_already_exists}
        }

    def ids(self, topics: Sequence[str], deadline: float | None) -> dict[str, uuid.UUID | None]:
        """Return the ids of topics by name; None for topics that do not exist.

        Topics that this client cannot describe, and existing ones before Kafka 2.8, are left out.
        """
        results = self._describe(topics, deadline, "describing topics")
        unknown = ErrorCode.unknown_topic_or_partition
        ids: dict[str, uuid.UUID | None] = {
            name: None for name, result in results.items() if result.code == unknown
        }
        described = (result.value for result in results.values() if result.value is not None)
        return ids | {topic.name: topic.topic_id for topic in described if topic.topic_id}

    def names(self, deadline: float | None) -> tuple[str, ...]:
        """Return the names of the topics that this client can describe, except internal topics."""
        handler, what = ListTopicsHandler(), "listing the topics"
        return request_one(self._client, handler, _ALL_TOPICS, deadline, what).value or ()

    def check_compacted(
        self, name: str, configs: Mapping[str, str], deadline: float | None
    ) -> None:
        """Check that a topic is compacted. Other cleanup policies would delete required records.

        The check is skipped if this client is not authorized to read the topic's configs
        (DescribeConfigs).

        Args:
            name: the topic's name.
            configs: see `create_compacted`.
            deadline: time limit.

        Raises:
            ConfigError: the topic's cleanup.policy differs from the required policy.
            BrokerUnavailableError: the deadline has passed.
        """
        policy = self.topic_config(name, CLEANUP, deadline)
        if policy is None:
            return
        required = configs.get(CLEANUP, COMPACT)
        allowed, policies = (
            {policy_name.strip() for policy_name in text.split(",")} for text in (required, policy)
        )
        if COMPACT not in policies or not policies <= allowed:
            raise ConfigError(
                f"the existing topic has cleanup.policy={policy}, but {required} is required",
                topic=name,
                hint="Choose another name, or run kafka-configs --bootstrap-server "
                f"{self._client.config.bootstrap_servers[0]} --alter --topic {name} "
                f"--add-config cleanup.policy=[{required}]",
            )

    def topic_config(self, topic: str, name: str, deadline: float | None) -> str | None:
        """Return a topic's config, or None if it is missing or this client may not read it."""
        handler: DescribeConfigsHandler[str] = DescribeConfigsHandler(ConfigResource.TOPIC)
        what = f"reading {name} of topic {topic}"
        value = request_one(self._client, handler, topic, deadline, what).value
        return None if value is None else value.get(name)

    def broker_config(self, name: str, deadline: float | None) -> str | None:
        """Return a config of the brokers, or the smallest number if their values differ.

        Return None if the config is missing, or this client is not authorized to read it
        (DescribeConfigs on the cluster).

        Raises:
            BrokerUnavailableError: no broker has responded before the deadline.
        """
        client = self._client
        client.await_metadata(deadline)
        handler: DescribeConfigsHandler[int] = DescribeConfigsHandler(ConfigResource.BROKER)
        driver = ApiDriver(client, handler, client.cluster.nodes, BrokerLookup(client))
        soon = client.deadline(_BROKERS_TIMEOUT_S)
        if not driver.run(soon if deadline is None else min(soon, deadline)) and not driver.results:
            raise client.unavailable(f"reading {name} from the brokers", driver.latest_code)
        settings = [result.value or {} for result in driver.results.values()]
        values = [value for setting in settings if (value := setting.get(name)) is not None]
        return min(values, key=_as_number, default=None)

    def _exists(self, name: str, deadline: float | None) -> bool:
        """Return True if the topic exists and this client is authorized to describe it."""
        return not self._describe((name,), deadline, f"describing topic {name}")[name].code

    def _describe(
        self, topics: Sequence[str], deadline: float | None, what: str
    ) -> dict[str, KeyResult[TopicDescription]]:
        return ApiDriver(self._client, DescribeTopicsHandler(), topics).complete(deadline, what)

    def _create(self, topic: NewTopic, deadline: float | None) -> bool:
        """Create a topic; return False if it already exists."""
        handler, what = CreateTopicsHandler([topic]), f"creating topic {topic.name}"
        result = request_one(self._client, handler, topic.name, deadline, what)
        exists = result.code == ErrorCode.topic_already_exists
        if result.code and not exists:
            raise self._rejection(topic.name, result.code, result.message)
        return not exists

    def _is_served(self, name: str, deadline: float | None) -> bool:
        """Wait until the topic's leader responds; return False if the topic does not exist.

        CreateTopics reports that a topic exists while it is being deleted. The topic disappears
        shortly afterwards.
        """
        topic_partition = TopicPartition(name, 0)
        client = self._client
        leaders = LeaderLookup(client, _UNKNOWN_TOPIC_RETRY_S)
        driver = ApiDriver(client, ListOffsetsHandler(client, LATEST), (topic_partition,), leaders)
        code = driver.complete(deadline, f"waiting for topic {name}")[topic_partition].code
        if code == ErrorCode.topic_authorization_failed:
            raise denied(client, "ListOffsets", code, on_topic(AclOperation.DESCRIBE, name))
        if code not in {ErrorCode.none, ErrorCode.unknown_topic_or_partition}:
            raise ProtocolError(
                "the topic's leader rejected ListOffsets", topic=name, error=error_name(code)
            )
        return code == ErrorCode.none

    def _rejection(self, name: str, code: int, message: str | None) -> KafkaProdError:
        if code == ErrorCode.topic_authorization_failed:
            return denied(self._client, "CreateTopics", code, on_topic(AclOperation.CREATE, name))
        if code == ErrorCode.cluster_authorization_failed:
            acl = Acl(AclOperation.CREATE, ResourceType.CLUSTER)
            return denied(self._client, "CreateTopics", code, acl)
        error = ConfigError if code in error_codes.INVALID_TOPIC_SETTINGS else ProtocolError
        reason = f": {message}" if message else ""
        return error(f"the topic cannot be created{reason}", topic=name, error=error_name(code))


def _as_number(value: str) -> float:
    return float(value) if value.lstrip("-").isdigit() else 0.0
