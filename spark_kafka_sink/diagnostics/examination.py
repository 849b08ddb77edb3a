"""Asks the brokers what the checks need to know; every answer has a deadline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from spark_kafka_sink.admin.api_driver import ApiDriver
from spark_kafka_sink.admin.handlers.describe_topics import DescribeTopicsHandler
from spark_kafka_sink.admin.handlers.topics import (
    ConfigResource,
    CreateTopicsHandler,
    DescribeConfigsHandler,
    NewTopic,
)
from spark_kafka_sink.admin.lookups import AnyBrokerLookup, ControllerLookup
from spark_kafka_sink.admin.topic_admin import TopicAdmin
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.diagnostics.connecting import (
    judge_connection,
    judge_unreachable,
    silent,
    step_of_error,
)
from spark_kafka_sink.diagnostics.finding import Finding, Severity
from spark_kafka_sink.diagnostics.permissions import judge_permissions
from spark_kafka_sink.diagnostics.topic_settings import SETTINGS, judge_settings
from spark_kafka_sink.diagnostics.topics import (
    Creation,
    TopicFacts,
    judge_buffer,
    judge_partitions,
    judge_topic,
    missing_in_dry_run,
)
from spark_kafka_sink.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.config.model import SinkConfig

_AUTO_CREATE: Final = "auto.create.topics.enable"
_LONGEST_TURN: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is to be written; `has_key`: there is a column `key`, None where that is not known."""

    config: SinkConfig
    has_key: bool | None = None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that are known before there are rows."""
        named = (self.config.topic, self.config.dead_letters.dead_letter_topic)
        return tuple(name for name in named if name is not None)


def connect(
    client: BlockingClient, seconds: float, refused_s: float | None = None
) -> Finding | None:
    """Wait until some bootstrap server has told the metadata; what is wrong where none does.

    Args:
        client: not used before.
        seconds: for which to try.
        refused_s: the same where every server has refused, and none is silent; alike where None.
    """
    deadline = client.deadline(seconds)
    early = deadline if refused_s is None else client.deadline(min(refused_s, seconds))
    try:
        while not client.metadata.answered:
            now = client.now()
            if now >= deadline or (now >= early and _all_refuse(client)):
                return _unreachable(client, seconds)
            left = (early if now < early else deadline) - now
            client.turn(min(left, _LONGEST_TURN))
    except KafkaProdError as error:
        tried = error.broker and client.failures.diagnosis(error.broker)
        if tried:
            return judge_connection(str(error.broker), tried)
        return Finding.failure(step_of_error(error), error)
    return None


def _all_refuse(client: BlockingClient) -> bool:
    """Whether each bootstrap server has been tried, and none has just not answered."""
    tried = [client.failures.diagnosis(server) for server in client.config.bootstrap_servers]
    return all(each is not None and not each.unanswered for each in tried)


def _unreachable(client: BlockingClient, seconds: float) -> Finding:
    servers = client.config.bootstrap_servers
    under_way = {
        str(broker.node): silent(broker.connection.state, seconds) for broker in client.brokers()
    }
    found = []
    for server in servers:
        diagnosis = client.failures.diagnosis(server) or under_way.get(server)
        if diagnosis is not None:
            found.append(judge_connection(server, diagnosis))
    return judge_unreachable(found, len(servers))


def create_topic(client: BlockingClient, config: SinkConfig) -> None:
    """Create the topic where that is asked for and there is none; it may take max.block.ms.

    A dry run creates none.

    Raises:
        KafkaProdError: it can't be created.
    """
    topic = _wanted_topic(config)
    if topic is not None and not config.dry_run:
        TopicAdmin(client).create(topic, client.deadline(config.producer.max_block_ms / 1000))


def _wanted_topic(config: SinkConfig) -> NewTopic | None:
    """What topic.create=true asks for."""
    wanted, name = config.topic_creation, config.topic
    if not wanted.create or name is None:
        return None
    return NewTopic(
        name=name,
        partitions=wanted.partitions,
        replication=wanted.replication_factor,
        configs=dict(wanted.configs),
    )


def judge_topics(client: BlockingClient, intent: Intent, seconds: float) -> list[Finding]:
    """Whether the topics that are known take what is to be written."""
    topics = intent.topics
    if not topics:
        return []
    try:
        facts = _ask(client, intent, topics, client.deadline(seconds))
    except KafkaProdError as error:
        return [Finding.warning(step_of_error(error), error, local=True)]
    found: list[Finding] = []
    for each in facts:
        of_topic = _judge(each, intent)
        found += of_topic if each.name == intent.config.topic else map(_milder, of_topic)
    return found


def _judge(facts: TopicFacts, intent: Intent) -> list[Finding]:
    producer = intent.config.producer
    missing = facts.code == ErrorCode.unknown_topic_or_partition
    if missing and intent.config.dry_run and facts.name not in dict(intent.config.assumed_topics):
        return [missing_in_dry_run(facts)]
    found = [judge_topic(facts, producer)]
    if facts.name == intent.config.topic:
        found += judge_partitions(facts, intent.config.topic_creation.partitions)
        found += judge_buffer(facts, producer, intent.has_key)
    if facts.exists:
        found += judge_settings(facts, intent.config, intent.has_key)
        found.append(judge_permissions(facts, producer))
    return found


def _milder(finding: Finding) -> Finding:
    """A dead letter topic is needed once there is a bad row, and not before."""
    if finding.severity is not Severity.ERROR or finding.error is None:
        return finding
    return Finding.warning(finding.step, finding.error, local=finding.local)


def _ask(
    client: BlockingClient, intent: Intent, topics: Sequence[str], deadline: float
) -> list[TopicFacts]:
    """What the brokers tell of topics and their settings, asked for at the same time."""
    described: ApiDriver[str, Any] = ApiDriver(
        client, DescribeTopicsHandler(), AnyBrokerLookup(client), topics
    )
    configs: ApiDriver[str, Any] = ApiDriver(
        client,
        DescribeConfigsHandler(ConfigResource.TOPIC, SETTINGS),
        AnyBrokerLookup(client),
        topics,
    )
    described.step(client.now())
    if not configs.run(deadline) or not described.run(deadline):
        raise client.unavailable("describing the topics", described.latest_code)
    found = []
    wanted = _wanted_topic(intent.config)
    for name in topics:
        by_sink = wanted if wanted is not None and wanted.name == name else None
        told, settings = described.results[name], configs.results[name]
        missing = told.code == ErrorCode.unknown_topic_or_partition
        may_be_created = by_sink is not None or intent.config.producer.allow_auto_create_topics
        found.append(
            TopicFacts(
                name=name,
                code=told.code,
                description=told.value,
                settings=settings.value,
                of_dead_letters=name == intent.config.dead_letters.dead_letter_topic,
                creation=(
                    _creation(client, name, by_sink, deadline)
                    if missing and may_be_created
                    else None
                ),
            )
        )
    return found


def _creation(
    client: BlockingClient, name: str, by_sink: NewTopic | None, deadline: float
) -> Creation:
    """Find out what would come of creating a topic; none is created."""
    topic = by_sink or NewTopic(name=name, partitions=None)
    value = TopicAdmin(client).broker_config(_AUTO_CREATE, deadline)
    auto_create = None if value is None else value == "true"
    handler = CreateTopicsHandler([topic], validate_only=True)
    driver = ApiDriver(client, handler, ControllerLookup(client), (name,))
    if not driver.run(deadline):
        return Creation(by_sink=by_sink is not None, auto_create=auto_create)
    result = driver.results[name]
    code = 0 if result.code == ErrorCode.topic_already_exists else result.code
    return Creation(
        by_sink=by_sink is not None, auto_create=auto_create, code=code, message=result.message
    )
