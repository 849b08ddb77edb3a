"""Create topics for the package's own logs, and read settings of topics and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from spark_kafka_sink.admin.api_driver import ApiDriver
from spark_kafka_sink.admin.blocking_client import denied, on_topic
from spark_kafka_sink.admin.handlers.log import LATEST, ListOffsetsHandler
from spark_kafka_sink.admin.handlers.topics import (
    ConfigResource,
    CreateTopicsHandler,
    DescribeConfigsHandler,
    DescribeTopicsHandler,
    NewTopic,
)
from spark_kafka_sink.admin.lookups import (
    AnyBrokerLookup,
    BrokerLookup,
    ControllerLookup,
    LeaderLookup,
)
from spark_kafka_sink.client.cluster import TopicPartition
from spark_kafka_sink.common.errors import ConfigError, ProtocolError
from spark_kafka_sink.protocol.error_codes import INVALID_TOPIC_SETTINGS, ErrorCode, error_name
from spark_kafka_sink.security.acl import Acl, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.common.errors import KafkaProdError

CLEANUP: Final = "cleanup.policy"
COMPACT: Final = "compact"
_BROKER_SECONDS: Final = 5.0
"""Seconds to wait for the settings of all brokers; after that, one response is enough."""
_PATIENCE: Final = 2.0
"""How long to retry UNKNOWN_TOPIC_OR_PARTITION, in seconds: new topics take time to propagate."""


class TopicAdmin:
    """Administration of topics.

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
            replication: the replication factor; None for the brokers' default, which is 1 before
                Kafka 2.4.
            configs: the topic's settings; cleanup.policy defaults to "compact".
            deadline: when to give up.

        Returns:
            True if this call has created the topic.

        Raises:
            ConfigError: the brokers reject a setting, or the topic exists and is not compacted.
            AuthorizationError: an ACL is missing, which the error names.
            BrokerUnavailableError: the deadline has passed.
        """
        topic = NewTopic(name=name, replication=replication, configs={CLEANUP: COMPACT, **configs})
        made = False
        while True:
            made = self._create(topic, deadline) or made
            if not made:
                self.check_compacted(name, configs, deadline)
            if self._is_served(name, deadline):
                return made

    def create(self, topic: NewTopic, deadline: float | None) -> bool:
        """Create a topic unless it exists, and wait until its leader responds.

        Returns:
            True if this call has created the topic.

        Raises:
            ConfigError: the brokers reject a setting.
            AuthorizationError: an ACL is missing, which the error names.
            BrokerUnavailableError: the deadline has passed.
        """
        if self._exists(topic.name, deadline):  # No right to create an existing topic is needed.
            return False
        made = False
        while True:
            made = self._create(topic, deadline) or made
            if self._is_served(topic.name, deadline):
                return made

    def check_compacted(
        self, name: str, configs: Mapping[str, str], deadline: float | None
    ) -> None:
        """Raise an error if a topic is not compacted, because it would lose required records.

        The check is skipped if this client may not read the topic's settings (DescribeConfigs).

        Args:
            name: the topic's name.
            configs: see `create_compacted`.
            deadline: when to give up.

        Raises:
            ConfigError: the topic's cleanup.policy differs from the required one.
            BrokerUnavailableError: the deadline has passed.
        """
        policy = self.topic_config(name, CLEANUP, deadline)
        if policy is None:
            return
        needed = configs.get(CLEANUP, COMPACT)
        wanted, found = ({each.strip() for each in text.split(",")} for text in (needed, policy))
        if COMPACT not in found or not found <= wanted:
            raise ConfigError(
                f"there is a topic of this name whose cleanup.policy is {policy}, where "
                f"{needed} is needed",
                topic=name,
                hint="choose another name, or run kafka-configs --bootstrap-server "
                f"{self._client.config.bootstrap_servers[0]} --alter --topic {name} "
                f"--add-config cleanup.policy=[{needed}]",
            )

    def topic_config(self, topic: str, name: str, deadline: float | None) -> str | None:
        """Return a topic's setting; None if it is missing or this client may not read it."""
        handler: DescribeConfigsHandler[str] = DescribeConfigsHandler(ConfigResource.TOPIC, [name])
        any_broker: AnyBrokerLookup[str] = AnyBrokerLookup(self._client)
        driver = ApiDriver(self._client, handler, any_broker, (topic,))
        if not driver.run(deadline):
            raise self._client.unavailable(f"asking for {name} of {topic}", driver.latest_code)
        value = driver.results[topic].value
        return None if value is None else value.get(name)

    def broker_config(self, name: str, deadline: float | None) -> str | None:
        """Return a setting of the brokers; if their values differ, the smallest number.

        None if the setting is missing, or this client may not read it (DescribeConfigs on the
        cluster).

        Raises:
            BrokerUnavailableError: no broker has answered before the deadline.
        """
        client = self._client
        client.await_metadata(deadline)
        handler: DescribeConfigsHandler[int] = DescribeConfigsHandler(ConfigResource.BROKER, [name])
        driver = ApiDriver(client, handler, BrokerLookup(client), client.cluster.nodes)
        soon = client.deadline(_BROKER_SECONDS)
        if not driver.run(soon if deadline is None else min(soon, deadline)) and not driver.results:
            raise client.unavailable(f"asking the brokers for {name}", driver.latest_code)
        values = [result.value or {} for result in driver.results.values()]
        found = [value for told in values if (value := told.get(name)) is not None]
        return min(found, key=_as_number, default=None)

    def _exists(self, name: str, deadline: float | None) -> bool:
        """Return True if the topic exists and this client may describe it."""
        any_broker: AnyBrokerLookup[str] = AnyBrokerLookup(self._client)
        driver = ApiDriver(self._client, DescribeTopicsHandler(), any_broker, (name,))
        if not driver.run(deadline):
            raise self._client.unavailable(f"asking for topic {name}", driver.latest_code)
        return not driver.results[name].code

    def _create(self, topic: NewTopic, deadline: float | None) -> bool:
        """Create a topic; return False if it exists already."""
        controller: ControllerLookup[str] = ControllerLookup(self._client)
        handler = CreateTopicsHandler([topic])
        driver = ApiDriver(self._client, handler, controller, (topic.name,))
        if not driver.run(deadline):
            raise self._client.unavailable(f"creating topic {topic.name}", driver.latest_code)
        result = driver.results[topic.name]
        exists = result.code == ErrorCode.topic_already_exists
        if result.code and not exists:
            raise self._refusal(topic.name, result.code, result.message)
        return not exists

    def _is_served(self, name: str, deadline: float | None) -> bool:
        """Wait until the topic's leader responds; return False if the topic does not exist.

        For CreateTopics, a topic that is being deleted still exists; it disappears soon after.
        """
        key = TopicPartition(name, 0)
        client = self._client
        handler = ListOffsetsHandler(client, LATEST)
        driver = ApiDriver(client, handler, LeaderLookup(client, _PATIENCE), (key,))
        if not driver.run(deadline):
            raise client.unavailable(f"waiting for topic {name}", driver.latest_code)
        code = driver.results[key].code
        if code == ErrorCode.topic_authorization_failed:
            raise denied(client, "ListOffsets", code, on_topic(Operation.DESCRIBE, name))
        if code not in {ErrorCode.none, ErrorCode.unknown_topic_or_partition}:
            raise ProtocolError("the topic is not served", topic=name, error=error_name(code))
        return code == ErrorCode.none

    def _refusal(self, name: str, code: int, message: str | None) -> KafkaProdError:
        if code == ErrorCode.topic_authorization_failed:
            return denied(self._client, "CreateTopics", code, on_topic(Operation.CREATE, name))
        if code == ErrorCode.cluster_authorization_failed:
            acl = Acl(Operation.CREATE, ResourceType.CLUSTER)
            return denied(self._client, "CreateTopics", code, acl)
        text = f"the topic can't be made: {message}" if message else "the topic can't be made"
        kind = ConfigError if code in INVALID_TOPIC_SETTINGS else ProtocolError
        return kind(text, topic=name, error=error_name(code))


def _as_number(value: str) -> float:
    return float(value) if value.lstrip("-").isdigit() else 0.0
