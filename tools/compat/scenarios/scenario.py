"""Scenarios, and the run of a scenario on one broker with a topic of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeAlias

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tools.compat.scenarios.comparison import plain
from tools.support.raw_client import TIMEOUT, RawClient, create, fetch_values, new_producer_id
from tools.support.waiting import poll

Action: TypeAlias = Callable[["ScenarioRun"], None]
_P = ParamSpec("_P")
SOCKET_S = 20.0  # A slow machine must not look like a broker that does not respond.
OWN = "own"
"""Name that is replaced by the name of the scenario's topic in all requests."""


def action(function: Callable[Concatenate[ScenarioRun, _P], None]) -> Callable[_P, Action]:
    """Decorate a function so that it binds all arguments except the first, the run."""

    def bind(*args: _P.args, **kwargs: _P.kwargs) -> Action:
        return lambda run: function(run, *args, **kwargs)

    return bind


def asks(
    api: ApiKey,
    version: int,
    *requests: Mapping[str, Any],
    partitions: int = 0,
    group: bool = False,
    **configs: str,
) -> Action:
    """Return an action that sends requests of one API.

    If `partitions` is not 0, the topic is created first. With `group`, it waits for the coordinator
    of the group that has the name of the topic.
    """

    def send(run: ScenarioRun) -> None:
        if partitions:
            run.create(partitions, **configs)
        if group:
            run.find_group()
        for values in requests:
            run.ask(api, version, **values)

    return send


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named sequence of requests, which is sent to both brokers."""

    name: str
    action: Action


class ScenarioRun:
    """A connection to one broker; `seen` contains the responses in comparable form."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.seen: dict[str, Any] = {}
        self.last: Any = None
        """The last response as it was received, or None."""
        self._servers = bootstrap_servers
        self._connect()
        self._topic_id: Any = None
        self._producers: dict[str, int] = {}

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.call(ApiKey.DELETE_TOPICS, 4, topic_names=[self.topic], timeout=TIMEOUT)
        self.client.socket.close()

    def create(self, partitions: int = 1, **configs: str) -> None:
        create(self.client, self.topic, partitions, **configs)

    def producer(self, name: str = "p") -> int:
        """Return the producer id for a name; create it on first use."""
        if name not in self._producers:
            self._producers[name] = new_producer_id(self.client)
        return self._producers[name]

    def topic_id(self) -> Any:
        if self._topic_id is None:
            metadata = self.client.call(ApiKey.METADATA, 12, topics=[{"name": self.topic}])
            self._topic_id = metadata.topics[0].topic_id
        return self._topic_id

    def ask(self, api: ApiKey, version: int, **values: Any) -> Any:
        """Send a request; record the response, or that the broker closed the connection."""
        label = f"{len(self.seen) + 1} {api.name.lower()}"
        self.last = None
        try:
            self.last = self.client.call(api, version, **self.named({"timeout": TIMEOUT} | values))
            self.seen[label] = plain(self.last)
        except (ConnectionError, TimeoutError) as error:
            timed_out = isinstance(error, TimeoutError)
            self.seen[label] = "no answer" if timed_out else "the connection is closed"
            self._connect()
        return self.seen[label]

    def wait_for(self, api: ApiKey, version: int, error: ErrorCode, **values: Any) -> None:
        """Repeat a request while `error` occurs, because a real broker needs time to update."""
        request = self.named(values)
        poll(lambda: error.name not in repr(self.client.call(api, version, **request)), SOCKET_S)

    def named(self, value: Any) -> Any:
        """Return a copy of a value in which `OWN` is replaced."""
        match value:
            case str():
                return self.topic if value == OWN else value
            case dict():
                return {name: self.named(item) for name, item in value.items()}
            case list() | tuple():
                return [self.named(item) for item in value]
        return value

    def find_group(self) -> None:
        """Wait until the coordinator of the group named after the topic is available."""
        unavailable = ErrorCode.coordinator_not_available
        self.wait_for(ApiKey.FIND_COORDINATOR, 2, unavailable, key=OWN, key_type=0)
        for error in (ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress):
            self.wait_for(ApiKey.DESCRIBE_GROUPS, 0, error, groups=[OWN])

    def produce(self, records: bytes | None, version: int = 9, **changes: Any) -> Any:
        """Send a Produce request for partition 0 of the topic; `changes` replace its fields."""
        data = {"index": changes.pop("partition", 0), "records": records}
        item = {"name": changes.pop("topic", self.topic), "partition_data": [data]}
        if version >= 13:
            item["topic_id"] = changes.pop("topic_id", None) or self.topic_id()
        values = {"acks": -1} | changes | {"topic_data": [item]}
        if values["acks"] != 0:
            return self.ask(ApiKey.PRODUCE, version, **values)
        # There is no response: check that the connection is still open.
        self.client.send(ApiKey.PRODUCE, version, **{"timeout": TIMEOUT} | values)
        return self.ask(ApiKey.METADATA, 9, topics=[])

    def fetch(self, offset: int = 0, version: int = 11, **changes: Any) -> Any:
        if version >= 13 and "topic_id" not in changes:
            changes["topic_id"] = self.topic_id()
        values = fetch_values(changes.pop("topic", self.topic), offset, **changes)
        return self.ask(ApiKey.FETCH, version, **values)

    def _connect(self) -> None:
        self.client = RawClient(self._servers)
        self.client.socket.settimeout(SOCKET_S)


def keep_everything(bootstrap_servers: str) -> None:
    """Set log.retention.ms=-1 on the embedded broker, as on the real Kafka."""
    change = {"name": "log.retention.ms", "config_operation": 0, "value": "-1"}
    brokers = {"resource_type": 4, "resource_name": "", "configs": [change]}
    with RawClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[brokers])
    assert answer.responses[0].error_code == 0


def run(scenario: Scenario, bootstrap_servers: str, number: int) -> dict[str, Any]:
    """Run a scenario on a broker and return the responses. An exception is also recorded."""
    started = ScenarioRun(bootstrap_servers, f"compared-{number:04}")
    try:
        scenario.action(started)
    except Exception as error:  # noqa: BLE001 - reported as a difference
        started.seen["raised"] = f"{type(error).__name__}: {error}"
    finally:
        started.close()
    return started.seen
