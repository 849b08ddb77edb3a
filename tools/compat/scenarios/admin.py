"""Scenarios with topics, partitions, assignments, elections, the cluster, and configs."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from spark_kafka_sink.broker.handlers.served_apis import HANDLERS
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.compat.scenarios.scenario import (
    OWN,
    SOCKET_S,
    Action,
    Scenario,
    ScenarioRun,
    action,
    asks,
)
from tools.support.waiting import poll

_NEW = {"name": OWN, "num_partitions": 2, "replication_factor": 1}
_UNKNOWN = {"name": None, "topic_id": UUID(int=9)}
_ASSIGNMENTS: dict[str, list[list[int]]] = {
    "to the node": [[1], [1]],
    "to a missing node": [[1], [77]],
    "to nobody": [[1], []],
    "to a node twice": [[1], [1, 1]],
    "too few": [[1]],
    "too many": [[1], [1], [1]],
    "none at all": [],
}
_LISTED: tuple[list[Any] | None, ...] = (
    None,
    [],
    [{"name": OWN, "partition_indexes": [0, 9]}],
    [{"name": "not-there", "partition_indexes": [0]}],
)
_ELECTED: tuple[list[dict[str, Any]], ...] = (
    [{"topic": OWN, "partitions": [0, 1]}],
    [{"topic": OWN, "partitions": [9]}],
    [{"topic": "not-there", "partitions": [0]}],
    [],
)
TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
FLUSH = "log.flush.interval.messages"
_Resource = tuple[int, str]
_DESCRIBED: tuple[tuple[_Resource, tuple[str, ...]], ...] = (
    ((TOPIC, OWN), ("retention.ms", "cleanup.policy", "no.such")),
    ((TOPIC, OWN), ()),
    ((TOPIC, "not-there"), ()),
    ((TOPIC, "a/b"), ()),
    ((BROKER, "1"), ("message.max.bytes",)),
    ((BROKER, "9"), ()),
    ((BROKER, "x"), ()),
    ((3, "x"), ()),
)
_ALTERED = (
    (SET, "retention.ms", "7000"),
    (DELETE, "retention.ms", None),
    (SET, "retention.ms", "x"),
    (SET, "no.such", "x"),
    (APPEND, "cleanup.policy", "compact"),
    (SUBTRACT, "cleanup.policy", "delete"),
    (APPEND, "retention.ms", "5"),
    (9, "retention.ms", "5"),
    (SET, "retention.ms", None),
)


def _config(name: str, value: str | None) -> dict[str, Any]:
    return {"configs": [{"name": name, "value": value}]}


def _assigned(*replicas: tuple[int, list[int]], count: int = -1) -> dict[str, Any]:
    assignments = [{"partition_index": index, "broker_ids": nodes} for index, nodes in replicas]
    return {"num_partitions": count, "replication_factor": count, "assignments": assignments}


_TOPICS: dict[str, dict[str, Any]] = {
    "as usual": {},
    "default partitions": {"num_partitions": -1, "replication_factor": -1},
    "0 partitions": {"num_partitions": 0},
    "-2 partitions": {"num_partitions": -2},
    "0 replicas": {"replication_factor": 0},
    "9 replicas": {"replication_factor": 9},
    "a slash in the name": {"name": "a/b"},
    "the name ..": {"name": ".."},
    "an empty name": {"name": ""},
    "a long name": {"name": "x" * 250},
    "an unknown config": _config("no.such.config", "1"),
    "retention.ms=null": _config("retention.ms", None),
    "retention.ms=x": _config("retention.ms", "x"),
    "retention.ms=-2": _config("retention.ms", "-2"),
    "max.message.bytes=-1": _config("max.message.bytes", "-1"),
    "cleanup.policy=x": _config("cleanup.policy", "x"),
    "cleanup.policy=compact,delete": _config("cleanup.policy", "compact,delete"),
    "compression.type=x": _config("compression.type", "x"),
    "min.insync.replicas=0": _config("min.insync.replicas", "0"),
    "segment.bytes=1": _config("segment.bytes", "1"),
    "an assignment": _assigned((0, [1])),
    "an assignment with a gap": _assigned((1, [1])),
    "an assignment to no node": _assigned((0, [77])),
    "an assignment and a count": _assigned((0, [1]), count=1),
}
_WRONG_ASSIGNMENTS = {
    "to a node twice": _assigned((0, [1, 1])),
    "to nobody": _assigned((0, [])),
    "one of a partition twice": _assigned((0, [1]), (0, [1])),
    "of different sizes": _assigned((0, [1]), (1, [1, 77])),
}


def _create(version: int, changes: dict[str, Any], *, validate: bool = False) -> Action:
    values = {"topics": [_NEW | changes], "validate_only": validate}
    # If validation created the topic, the second response would be an error.
    return asks(ApiKey.CREATE_TOPICS, version, *[values] * (2 if validate else 1))


def _create_twice(version: int) -> Action:
    new = _NEW | {"num_partitions": 1}
    requests = ({"topics": topics} for topics in ([new], [new], [new, new]))
    return asks(ApiKey.CREATE_TOPICS, version, *requests)


def _delete(version: int) -> Action:
    requests: list[dict[str, Any]] = [
        {"topics": [{"name": name}], "topic_names": [name]} for name in (OWN, "not-there")
    ]
    requests += [{"topics": [_UNKNOWN]}] if version >= 6 else []
    return asks(ApiKey.DELETE_TOPICS, version, *requests, partitions=1)


def _metadata(version: int, *names: str, **values: Any) -> Action:
    topics: list[Any] = [{"name": name} for name in names] or [_UNKNOWN]
    return asks(ApiKey.METADATA, version, {"topics": topics} | values, partitions=2)


def _by_id(run: ScenarioRun) -> None:
    run.create(2)
    run.ask(ApiKey.METADATA, 12, topics=[{"name": None, "topic_id": run.topic_id()}])


def _partitions(version: int) -> Action:
    counts = ((OWN, 2), (OWN, 1), ("not-there", 3), (OWN, 4))
    topics = ({"name": name, "count": count, "assignments": None} for name, count in counts)
    requests = ({"topics": [topic]} for topic in topics)
    return asks(ApiKey.CREATE_PARTITIONS, version, *requests, partitions=2)


@action
def _versions(run: ScenarioRun, version: int) -> None:
    software = {"client_software_name": "raw", "client_software_version": "1"}
    answer = run.client.call(ApiKey.API_VERSIONS, version, **software)
    ranges = {k.api_key: f"{k.min_version}-{k.max_version}" for k in answer.api_keys}
    for api in HANDLERS:
        run.seen[ApiKey(api).name.lower()] = ranges.get(api, "not served")
    run.seen["other APIs"] = sorted(set(ranges) - set(HANDLERS))
    features = getattr(answer, "finalized_features", ())
    run.seen["features"] = {
        f.name: f"{f.min_version_level}-{f.max_version_level}" for f in features
    }


def _cluster(version: int) -> Action:
    kinds = (1, 2, 3) if version >= 1 else (1,)
    return asks(ApiKey.DESCRIBE_CLUSTER, version, *({"endpoint_type": kind} for kind in kinds))


def topic_scenarios() -> Iterator[Scenario]:
    """Yield the scenarios that create, delete and describe topics."""
    for name, changes in _TOPICS.items():
        for version in (2, 5, 7):
            yield Scenario(f"create topics {version}, {name}", _create(version, changes))
    for name in ("as usual", "default partitions", "9 replicas", "an unknown config"):
        action = _create(7, _TOPICS[name], validate=True)
        yield Scenario(f"create topics 7, only validated, {name}", action)
    for version in (2, 7):
        yield Scenario(f"create topics {version}, again", _create_twice(version))
    for version in range(1, 7):
        yield Scenario(f"delete topics {version}", _delete(version))
    for version in range(14):
        yield Scenario(f"metadata {version}", _metadata(version, OWN))
        yield Scenario(f"metadata {version}, no such topic", _metadata(version, OWN, "nope"))
    for version in (4, 12):
        action = _metadata(version, "a/b", "", allow_auto_topic_creation=True)
        yield Scenario(f"metadata {version}, invalid names", action)
    yield Scenario("metadata 12, no such id", _metadata(12))
    yield Scenario("metadata 12, by id", _by_id)
    yield Scenario("metadata 12, no topics", asks(ApiKey.METADATA, 12, {"topics": []}))


def cluster_scenarios() -> Iterator[Scenario]:
    """Yield the scenarios that describe the cluster or add partitions."""
    for version in range(1, 5):
        yield Scenario(f"api versions {version}", _versions(version))
    for version in range(4):
        yield Scenario(f"create partitions {version}", _partitions(version))
    for version in range(3):
        yield Scenario(f"describe cluster {version}", _cluster(version))


def _grow(version: int, assignments: list[list[int]], *, validate: bool = False) -> Action:
    assignments_of_new = [{"broker_ids": nodes} for nodes in assignments]
    topics = [{"name": OWN, "count": 4, "assignments": assignments_of_new}]
    values = {"topics": topics, "validate_only": validate}
    return asks(ApiKey.CREATE_PARTITIONS, version, values, partitions=2)


def _reassign(version: int) -> Action:
    places: tuple[tuple[str, int, list[int] | None], ...] = (
        (OWN, 0, [1]),
        (OWN, 1, [77]),
        (OWN, 1, []),
        (OWN, 1, [1, 1]),
        (OWN, 0, None),
        (OWN, 9, [1]),
        (OWN, 9, None),
        ("not-there", 0, [1]),
    )
    requests: list[dict[str, Any]] = [
        {"topics": [{"name": name, "partitions": [{"partition_index": i, "replicas": nodes}]}]}
        for name, i, nodes in places
    ]
    api = ApiKey.ALTER_PARTITION_REASSIGNMENTS
    return asks(api, version, *requests, {"topics": []}, partitions=2)


def _elect(version: int, kind: int) -> Action:
    requests = ({"topic_partitions": topics, "election_type": kind} for topics in _ELECTED)
    return asks(ApiKey.ELECT_LEADERS, version, *requests, partitions=2)


def placement_scenarios() -> Iterator[Scenario]:
    """Yield the scenarios with assignments, reassignments and elections on one node."""
    for name, assignments in _ASSIGNMENTS.items():
        for version in (0, 3):
            yield Scenario(f"create partitions {version}, {name}", _grow(version, assignments))
        action = _grow(3, assignments, validate=True)
        yield Scenario(f"create partitions 3, only validated, {name}", action)
    for name, changes in _WRONG_ASSIGNMENTS.items():
        yield Scenario(f"create topics 7, assignments {name}", _create(7, changes))
    for version in range(2):
        yield Scenario(f"alter partition reassignments {version}", _reassign(version))
    listed = ({"topics": topics} for topics in _LISTED)
    action = asks(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, *listed, partitions=2)
    yield Scenario("list partition reassignments 0", action)
    for version in range(3):
        yield Scenario(f"elect leaders {version}", _elect(version, 0))
    for kind in (1, 7):
        yield Scenario(f"elect leaders 2, of type {kind}", _elect(2, kind))


def _resources(resource: _Resource, *names: str) -> dict[str, Any]:
    kind, name = resource
    request = {
        "resource_type": kind,
        "resource_name": name,
        "configuration_keys": list(names) or None,
    }
    return {"resources": [request]}


def _changed(resource: _Resource, *changes: tuple[int, str, str | None]) -> dict[str, Any]:
    configs = [
        {"name": name, "config_operation": operation, "value": value}
        for operation, name, value in changes
    ]
    kind, name = resource
    return {"resources": [{"resource_type": kind, "resource_name": name, "configs": configs}]}


def _describe(run: ScenarioRun, resource: _Resource, *names: str) -> None:
    run.ask(ApiKey.DESCRIBE_CONFIGS, 4, **_resources(resource, *names), include_synonyms=True)


def _change(run: ScenarioRun, resource: _Resource, *changes: tuple[int, str, str | None]) -> None:
    run.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, **_changed(resource, *changes))


def _until(run: ScenarioRun, resource: _Resource, name: str, value: str | None) -> None:
    """Wait until a config has a value, or until it is unset if `value` is None."""
    request = _resources((resource[0], run.named(resource[1])), name)

    def is_set() -> bool:
        described = run.client.call(ApiKey.DESCRIBE_CONFIGS, 4, **request).results[0]
        return {config.value for config in described.configs} == ({value} if value else set())

    poll(is_set, SOCKET_S)


def _described(version: int) -> Action:
    requests = [
        _resources(resource, *names) | {"include_synonyms": False} for resource, names in _DESCRIBED
    ]
    return asks(ApiKey.DESCRIBE_CONFIGS, version, *requests, partitions=1, retention_ms="5000")


def _altered(version: int) -> Action:
    requests = [_changed((TOPIC, OWN), change) for change in _ALTERED]
    requests.append(_changed((TOPIC, "not-there")))
    api = ApiKey.INCREMENTAL_ALTER_CONFIGS
    return asks(api, version, *requests, partitions=1, retention_ms="5000")


def _brokers(run: ScenarioRun) -> None:
    """Change configs of the only broker and of all brokers, and describe the configs of a topic."""
    run.create()
    everybody, broker, topic = (BROKER, ""), (BROKER, "1"), (TOPIC, OWN)
    _describe(run, broker, "message.max.bytes", "node.id", FLUSH)
    _change(run, everybody, (SET, FLUSH, "777"))
    _until(run, broker, FLUSH, "777")
    _describe(run, everybody, FLUSH)
    _describe(run, broker, FLUSH)
    _describe(run, topic, "flush.messages")
    _change(run, broker, (SET, FLUSH, "888"))
    _until(run, broker, FLUSH, "888")
    _describe(run, broker, FLUSH)
    _describe(run, topic, "flush.messages")
    _change(run, broker, (DELETE, FLUSH, None))
    _until(run, broker, FLUSH, "777")
    _change(run, everybody, (DELETE, FLUSH, None))
    _until(run, everybody, FLUSH, None)
    _until(run, broker, FLUSH, str(2**63 - 1))
    _describe(run, broker, FLUSH)


def _refused_of_brokers(name: str) -> Action:
    changes = (
        ((SET, "node.id", "5"),),
        ((SET, "num.partitions", "5"),),
        ((SET, FLUSH, "x"),),
        ((SET, FLUSH, None),),
        ((APPEND, FLUSH, "5"),),
        ((9, FLUSH, "5"),),
        ((SET, "message.max.bytes", "-1"),),
        ((SET, FLUSH, "1"), (SET, FLUSH, "2")),
    )
    requests = (_changed((BROKER, name), *change) for change in changes)
    return asks(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, *requests)


def _others(run: ScenarioRun) -> None:
    """Describe and change configs of resources that do not exist or have no configs."""
    for resource in (
        (BROKER, "9"),
        (BROKER, "x"),
        (LOGGER, "9"),
        (LOGGER, ""),
        (GROUP, ""),
        (TOPIC, "not-there"),
        (TOPIC, "a/b"),
        (77, "x"),
        (0, "x"),
    ):
        _describe(run, resource)
        _change(run, resource, (SET, FLUSH, "5"))


def _groups(run: ScenarioRun) -> None:
    name, group = "consumer.session.timeout.ms", (GROUP, OWN)
    _describe(run, group)
    _change(run, group, (SET, name, "50000"))
    _until(run, group, name, "50000")
    _describe(run, group)
    _change(run, group, (SET, name, "1"))
    _change(run, group, (SET, name, "x"))
    _change(run, group, (SET, "no.such", "1"))
    _change(run, group, (APPEND, name, "1"))
    _change(run, group, (DELETE, name, None))
    _until(run, group, name, "45000")
    _describe(run, group)


@action
def _legacy(run: ScenarioRun, version: int) -> None:
    """Send AlterConfigs, which replaces all configs."""

    def alter(kind: int, name: str, **configs: str | None) -> None:
        values = [{"name": k.replace("_", "."), "value": v} for k, v in configs.items()]
        resource = {"resource_type": kind, "resource_name": name, "configs": values}
        run.ask(ApiKey.ALTER_CONFIGS, version, resources=[resource])

    run.create(max_message_bytes="5000")
    topic, broker = (TOPIC, OWN), (BROKER, "1")
    alter(*topic, segment_bytes="2000000")
    _until(run, topic, "segment.bytes", "2000000")
    _describe(run, topic, "segment.bytes", "max.message.bytes")
    alter(*topic)
    _until(run, topic, "segment.bytes", str(1 << 30))
    _describe(run, topic, "segment.bytes", "max.message.bytes")
    alter(*topic, segment_bytes=None)
    alter(*topic, segment_bytes="x")
    alter(*topic, no_such="x")
    alter(TOPIC, "not-there", segment_bytes="5000000")
    alter(TOPIC, "a/b", segment_bytes="5000000")
    alter(*broker, log_flush_interval_messages="99")
    _until(run, broker, FLUSH, "99")
    alter(*broker)
    _until(run, broker, FLUSH, str(2**63 - 1))
    alter(*broker, node_id="7")
    alter(BROKER, "9", log_flush_interval_messages="99")
    alter(LOGGER, "1", kafka="INFO")
    alter(GROUP, OWN, consumer_session_timeout_ms="50000")
    alter(GROUP, OWN)
    alter(77, "x")


def _listed(run: ScenarioRun) -> None:
    """List the resources that have configs; ignore the topics of other scenarios."""
    for version, kinds in ((0, []), (1, [BROKER, LOGGER]), (1, [GROUP]), (1, [77]), (1, [16])):
        run.ask(ApiKey.LIST_CONFIG_RESOURCES, version, resource_types=kinds)


def config_scenarios() -> Iterator[Scenario]:
    """Yield all scenarios with configs."""
    for version in range(1, 5):
        yield Scenario(f"describe configs {version}", _described(version))
    for version in range(2):
        yield Scenario(f"incremental alter configs {version}", _altered(version))
    yield Scenario("configs of brokers", _brokers)
    for name in ("", "1"):
        yield Scenario(f"configs of broker '{name}', refused", _refused_of_brokers(name))
    yield Scenario("configs of missing resources", _others)
    yield Scenario("configs of groups", _groups)
    yield Scenario("configs of all kinds, listed", _listed)
    for version in range(3):
        yield Scenario(f"alter configs {version}", _legacy(version))
