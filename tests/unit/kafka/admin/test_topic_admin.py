"""A compacted topic that is created, exists already, or is rejected."""

from typing import Any

import pytest

from spark_kafka_sink.common.errors import AuthorizationError, ConfigError
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey, VersionRange
from tests.support.harness.scripted import blocking_client, code
from tests.unit.kafka.admin.partition_leader import PartitionLeader


class Controller(PartitionLeader):
    """Node 2 is the controller if it exists; topics have the configs in `settings`."""

    def __init__(self, nodes: int = 1) -> None:
        super().__init__(nodes)
        self.create_codes = [0]
        self.settings: dict[str, dict[str, str]] = {"t": {"cleanup.policy": "compact"}}
        self.describe_code = 0
        self.scripts[ApiKey.CREATE_TOPICS] = self._create
        self.scripts[ApiKey.DESCRIBE_CONFIGS] = self._describe

    def _create(self, node: int, request: Any) -> dict[str, Any]:
        (topic,) = request.topics
        failed = self.create_codes.pop(0) if self.create_codes else ErrorCode.topic_already_exists
        if node != self.nodes:
            failed = ErrorCode.not_controller
        return {"topics": [code(failed) | {"name": topic.name, "error_message": "no"}]}

    def _describe(self, _node: int, request: Any) -> dict[str, Any] | None:
        (named,) = request.resources
        if named.configuration_keys is not None:
            return None  # Tansu closes the connection; Java's client sends no names.
        known = self.settings.get(named.resource_name, {})
        configs = [{"name": name, "value": known[name]} for name in known if not self.describe_code]
        resource = {"resource_type": named.resource_type, "resource_name": named.resource_name}
        return {"results": [code(self.describe_code) | resource | {"configs": configs}]}


def create(cluster: Controller, replication: int | None = None, **configs: str) -> bool:
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    with blocking_client(cluster) as client:
        admin = TopicAdmin(client)
        return admin.create_compacted("t", replication, settings, client.deadline(10))


def requested_topic(cluster: Controller) -> Any:
    ((_, request),) = cluster.requests_for(ApiKey.CREATE_TOPICS)
    (topic,) = request.topics
    return topic


def test_topic_is_compacted_with_the_requested_configs() -> None:
    cluster = Controller()
    assert create(cluster, 3, segment_bytes="1000")
    topic = requested_topic(cluster)
    configs = {config.name: config.value for config in topic.configs}
    assert configs == {"cleanup.policy": "compact", "segment.bytes": "1000"}
    assert (topic.num_partitions, topic.replication_factor) == (1, 3)


@pytest.mark.parametrize(("version", "replication"), [(2, 1), (3, 1), (4, -1), (7, -1)])
def test_default_partition_count_and_replication_factor(version: int, replication: int) -> None:
    cluster = Controller()
    cluster.limit(ApiKey.CREATE_TOPICS, VersionRange(2, version))
    create(cluster)
    assert requested_topic(cluster).replication_factor == replication


def test_brokers_are_tried_until_one_is_the_controller() -> None:
    cluster = Controller(nodes=3)
    cluster.create_codes = [0] * 3
    assert create(cluster)
    assert [node for node, _ in cluster.requests_for(ApiKey.CREATE_TOPICS)] == [1, 2, 3]


@pytest.mark.parametrize(
    ("actual", "requested", "fits"),
    [
        ("compact", "compact", True),
        ("compact,delete", "compact,delete", True),
        ("compact", "compact,delete", True),
        ("compact,delete", "compact", False),
        ("delete", "compact", False),
        ("delete", "compact,delete", False),
    ],
)
def test_existing_topic_must_be_compacted(actual: str, requested: str, *, fits: bool) -> None:
    cluster = Controller()
    cluster.create_codes = [ErrorCode.topic_already_exists]
    cluster.settings["t"]["cleanup.policy"] = actual
    if fits:
        assert not create(cluster, cleanup_policy=requested)
    else:
        with pytest.raises(ConfigError, match=f"cleanup.policy={actual}"):
            create(cluster, cleanup_policy=requested)


def test_denied_configs_are_not_checked() -> None:
    cluster = Controller()
    cluster.create_codes = [ErrorCode.topic_already_exists]
    cluster.describe_code = ErrorCode.topic_authorization_failed
    assert not create(cluster)


def test_topic_deleted_during_the_check_is_recreated() -> None:
    cluster = Controller()
    cluster.create_codes = [ErrorCode.topic_already_exists, 0]
    usual = cluster.scripts[ApiKey.CREATE_TOPICS]
    cluster.metadata_errors["t"] = ErrorCode.unknown_topic_or_partition

    def make(node: int, request: Any) -> dict[str, Any] | None:
        if len(cluster.requests_for(ApiKey.CREATE_TOPICS)) > 1:
            cluster.metadata_errors.clear()
        return usual(node, request)

    cluster.scripts[ApiKey.CREATE_TOPICS] = make
    assert create(cluster)


@pytest.mark.parametrize(
    ("number", "error", "text"),
    [
        (29, AuthorizationError, "Create on topic t"),
        (31, AuthorizationError, "Create on the cluster"),
        (38, ConfigError, "cannot be created: no"),
        (44, ConfigError, "cannot be created: no"),
    ],
)
def test_broker_errors_are_raised(number: int, error: type[Exception], text: str) -> None:
    cluster = Controller()
    cluster.create_codes = [number]
    with pytest.raises(error, match=text):
        create(cluster)


def test_minimum_of_different_brokers_counts() -> None:
    cluster = Controller(nodes=3)
    name = "transaction.max.timeout.ms"
    for node, value in (("1", "900000"), ("2", "60000"), ("3", "1000000")):
        cluster.settings[node] = {name: value}
    with blocking_client(cluster) as client:
        assert TopicAdmin(client).broker_config(name, client.deadline(10)) == "60000"
        assert TopicAdmin(client).broker_config("other", client.deadline(10)) is None


def test_denied_broker_config_is_none() -> None:
    cluster = Controller()
    cluster.describe_code = ErrorCode.cluster_authorization_failed
    with blocking_client(cluster) as client:
        assert TopicAdmin(client).broker_config("x", client.deadline(10)) is None
