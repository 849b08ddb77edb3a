"""Create and describe topics, and read the configs of topics and brokers.

Describing a topic never creates it. Source: ``KafkaAdminClient.describeTopics``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import ConfigError, KafkaProdError, ProtocolError
from spark_kafka_sink.kafka.admin.topic_handlers import (
    ALL_TOPICS,
    CreateTopicsHandler,
    DescribeConfigsHandler,
    DescribeTopicsHandler,
    ListTopicsHandler,
    NewTopic,
    TopicDescription,
)
from spark_kafka_sink.kafka.blocking.api_driver import ApiDriver, KeyResult, request_one
from spark_kafka_sink.kafka.blocking.lookups import BrokerLookup, LeaderLookup
from spark_kafka_sink.kafka.blocking.partition_offsets import ListOffsetsHandler
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.config_resource_type import ConfigResourceType
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.kafka.protocol.list_offsets import LATEST
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.security.acl_commands import Acl
from spark_kafka_sink.kafka.security.acl_errors import denied_error, topic_acl

if TYPE_CHECKING:
    import uuid
    from collections.abc import Mapping, Sequence

    from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient


CLEANUP = "cleanup.policy"
_COMPACT = "compact"
_BROKERS_TIMEOUT_S = 5.0
"""Seconds to wait for the configs of all brokers. Afterwards, one response is sufficient."""
_UNKNOWN_TOPIC_RETRY_S = 2.0
"""Seconds for which UNKNOWN_TOPIC_OR_PARTITION is retried after CreateTopics. In this time, a new
topic reaches all brokers, and a topic that is being deleted disappears.
"""


class TopicAdmin:
    """Admin functions for topics.

    Deadlines are in seconds of the client's clock; None for no deadline.
    """

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def create_compacted(
        self, name: str, replication: int | None, configs: Mapping[str, str], deadline: float | None
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
        topic = NewTopic(name=name, replication=replication, configs={CLEANUP: _COMPACT, **configs})
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
            name: self._rejection_error(name, result.code, result.message)
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
        handler, action = ListTopicsHandler(), "listing the topics"
        return request_one(self._client, handler, ALL_TOPICS, deadline, action).value or ()

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
        required = configs.get(CLEANUP, _COMPACT)
        allowed, policies = (
            {policy_name.strip() for policy_name in text.split(",")} for text in (required, policy)
        )
        if _COMPACT not in policies or not policies <= allowed:
            raise ConfigError(
                f"the existing topic has cleanup.policy={policy}, but {required} is required",
                topic=name,
                hint="Choose another name, or run kafka-configs --bootstrap-server "
                f"{self._client.config.bootstrap_servers[0]} --alter --topic {name} "
                f"--add-config cleanup.policy=[{required}]",
            )

    def topic_config(self, topic: str, name: str, deadline: float | None) -> str | None:
        """Return a topic's config, or None if it is missing or this client may not read it."""
        handler: DescribeConfigsHandler[str] = DescribeConfigsHandler(ConfigResourceType.TOPIC)
        action = f"reading {name} of topic {topic}"
        value = request_one(self._client, handler, topic, deadline, action).value
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
        handler: DescribeConfigsHandler[int] = DescribeConfigsHandler(ConfigResourceType.BROKER)
        driver = ApiDriver(client, handler, client.cluster.nodes, BrokerLookup(client))
        soon = client.deadline(_BROKERS_TIMEOUT_S)
        if not driver.run(soon if deadline is None else min(soon, deadline)) and not driver.results:
            raise client.unavailable_error(f"reading {name} from the brokers", driver.latest_code)
        settings = [result.value or {} for result in driver.results.values()]
        values = [value for setting in settings if (value := setting.get(name)) is not None]
        return min(values, key=_as_number, default=None)

    def _exists(self, name: str, deadline: float | None) -> bool:
        """Return True if the topic exists and this client is authorized to describe it."""
        return not self._describe((name,), deadline, f"describing topic {name}")[name].code

    def _describe(
        self, topics: Sequence[str], deadline: float | None, action: str
    ) -> dict[str, KeyResult[TopicDescription]]:
        return ApiDriver(self._client, DescribeTopicsHandler(), topics).complete(deadline, action)

    def _create(self, topic: NewTopic, deadline: float | None) -> bool:
        """Create a topic; return False if it already exists."""
        handler, action = CreateTopicsHandler([topic]), f"creating topic {topic.name}"
        result = request_one(self._client, handler, topic.name, deadline, action)
        exists = result.code == ErrorCode.topic_already_exists
        if result.code and not exists:
            raise self._rejection_error(topic.name, result.code, result.message)
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
            raise denied_error(
                client.config, "ListOffsets", code, topic_acl(AclOperation.DESCRIBE, name)
            )
        if code not in {ErrorCode.none, ErrorCode.unknown_topic_or_partition}:
            raise ProtocolError(
                "the topic's leader rejected ListOffsets", topic=name, kafka_error=error_name(code)
            )
        return code == ErrorCode.none

    def _rejection_error(self, name: str, code: int, message: str | None) -> KafkaProdError:
        if code == ErrorCode.topic_authorization_failed:
            return denied_error(
                self._client.config, "CreateTopics", code, topic_acl(AclOperation.CREATE, name)
            )
        if code == ErrorCode.cluster_authorization_failed:
            acl = Acl(AclOperation.CREATE, ResourceType.CLUSTER)
            return denied_error(self._client.config, "CreateTopics", code, acl)
        error = ConfigError if code in error_codes.INVALID_TOPIC_SETTINGS else ProtocolError
        reason = f": {message}" if message else ""
        text = f"the topic cannot be created{reason}"
        return error(text, topic=name, kafka_error=error_name(code))


def _as_number(value: str) -> float:
    return float(value) if value.lstrip("-").isdigit() else 0.0
