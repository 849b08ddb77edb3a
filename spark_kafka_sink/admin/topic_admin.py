"""Topics that are made for a log of this package, and the settings that it must know of."""

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
from spark_kafka_sink.protocol.error_codes import ErrorCode, error_name
from spark_kafka_sink.security.acl import Acl, Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.common.errors import KafkaProdError

CLEANUP: Final = "cleanup.policy"
COMPACT: Final = "compact"
_BROKER_SECONDS: Final = 5.0
"""For which all brokers are waited for, where one that answers is enough."""
_PATIENCE: Final = 2.0
"""Seconds for which brokers may not know a topic that exists."""
_WRONG_SETTINGS = frozenset(
    {
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_config,
        ErrorCode.invalid_topic_exception,
        ErrorCode.policy_violation,
        ErrorCode.invalid_request,
    }
)


class TopicAdmin:
    """All deadlines are in seconds of the client's clock, None for as long as it takes."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def create_compacted(
        self,
        name: str,
        replication: int | None,
        configs: Mapping[str, str],
        deadline: float | None,
    ) -> bool:
        """Make a compacted topic of one partition, unless there is one; wait until it is served.

        Args:
            name: the topic.
            replication: how many brokers have a copy; None for the brokers' default, which is 1
                on brokers before Kafka 2.4.
            configs: the topic's settings; cleanup.policy is "compact" unless they say otherwise.
            deadline: when to give up.

        Returns:
            Whether this call has made it.

        Raises:
            ConfigError: the brokers refuse a setting, or there is such a topic that is not
                compacted.
            AuthorizationError: a right is missing, which it names.
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
        """Make a topic unless there is one, and wait until it is served; whether this made it.

        Raises:
            ConfigError: the brokers refuse a setting.
            AuthorizationError: a right is missing, which it names.
            BrokerUnavailableError: the deadline has passed.
        """
        if self._exists(topic.name, deadline):  # Create may be denied for one that is there
            return False
        made = False
        while True:
            made = self._create(topic, deadline) or made
            if self._is_served(topic.name, deadline):
                return made

    def check_compacted(
        self, name: str, configs: Mapping[str, str], deadline: float | None
    ) -> None:
        """Refuse a topic that is deleted by age, and forgets what must not be forgotten.

        A topic whose settings this client may not ask for (DescribeConfigs) passes.

        Args:
            name: the topic.
            configs: see `create_compacted`.
            deadline: when to give up.

        Raises:
            ConfigError: its cleanup.policy is another one.
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
        """A topic's setting; None where it has none, or this client may not ask."""
        handler: DescribeConfigsHandler[str] = DescribeConfigsHandler(ConfigResource.TOPIC, [name])
        any_broker: AnyBrokerLookup[str] = AnyBrokerLookup(self._client)
        driver = ApiDriver(self._client, handler, any_broker, (topic,))
        if not driver.run(deadline):
            raise self._client.unavailable(f"asking for {name} of {topic}", driver.latest_code)
        value = driver.results[topic].value
        return None if value is None else value.get(name)

    def broker_config(self, name: str, deadline: float | None) -> str | None:
        """A setting of the brokers: where theirs are different numbers, the least.

        None where they have none, or this client may not ask (DescribeConfigs on the cluster).

        Raises:
            BrokerUnavailableError: no broker has answered by the deadline.
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
        """Whether some broker knows the topic, and this client may see it."""
        any_broker: AnyBrokerLookup[str] = AnyBrokerLookup(self._client)
        driver = ApiDriver(self._client, DescribeTopicsHandler(), any_broker, (name,))
        if not driver.run(deadline):
            raise self._client.unavailable(f"asking for topic {name}", driver.latest_code)
        return not driver.results[name].code

    def _create(self, topic: NewTopic, deadline: float | None) -> bool:
        """Whether the topic is new."""
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
        """Wait until the topic's leader can be asked; False where the topic is not there.

        One that is being deleted exists for CreateTopics, and is gone soon.
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
        kind = ConfigError if code in _WRONG_SETTINGS else ProtocolError
        return kind(text, topic=name, error=error_name(code))


def _as_number(value: str) -> float:
    return float(value) if value.lstrip("-").isdigit() else 0.0
