"""Broker of one scenario: a raw client, a new topic, and the recorded responses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias

from spark_kafka_sink.protocol.versions import ApiKey
from tools.compat.scenarios.plain import plain
from tools.support.raw_client import TIMEOUT, RawClient, create, new_producer_id

if TYPE_CHECKING:
    from kio.schema.errors import ErrorCode

Play: TypeAlias = Callable[["World"], None]
_P = ParamSpec("_P")
SOCKET_SECONDS = 5.0


def play(function: Callable[Concatenate[World, _P], None]) -> Callable[_P, Play]:
    """Turn a function of a world and further arguments into one that binds these arguments."""

    def bind(*args: _P.args, **kwargs: _P.kwargs) -> Play:
        return lambda world: function(world, *args, **kwargs)

    return bind


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named sequence of requests to both brokers."""

    name: str
    play: Play


class World:
    """Requests to one broker; `seen` collects the responses as plain values."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.seen: dict[str, Any] = {}
        self.last: Any = None
        """The last response as received, or None."""
        self._servers = bootstrap_servers
        self.client = RawClient(bootstrap_servers)
        self.client.socket.settimeout(SOCKET_SECONDS)
        self._topic_id: Any = None
        self._producers: dict[str, int] = {}

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.call(ApiKey.DELETE_TOPICS, 4, topic_names=[self.topic], timeout=TIMEOUT)
        self.client.socket.close()

    def create(self, partitions: int = 1, **configs: str) -> None:
        create(self.client, self.topic, partitions, **configs)

    def producer(self, name: str = "p") -> int:
        """Return a producer ID, the same one for the same name."""
        if name not in self._producers:
            self._producers[name] = new_producer_id(self.client)
        return self._producers[name]

    def topic_id(self) -> Any:
        if self._topic_id is None:
            found = self.client.call(ApiKey.METADATA, 12, topics=[{"name": self.topic}])
            self._topic_id = found.topics[0].topic_id
        return self._topic_id

    def ask(self, api: ApiKey, version: int, **values: Any) -> Any:
        """Send a request and record the response, or that the connection was closed."""
        label = f"{len(self.seen) + 1} {api.name.lower()}"
        self.last = None
        try:
            self.last = self.client.call(api, version, **values)
            self.seen[label] = plain(self.last)
        except ConnectionError:
            self.seen[label] = "the connection is closed"
            self._reconnect()
        except TimeoutError:
            self.seen[label] = "no answer"
            self._reconnect()
        return self.seen[label]

    def wait_for(self, api: ApiKey, version: int, error: ErrorCode, **values: Any) -> None:
        """Repeat a request until this error is gone: a real broker needs time to update."""
        deadline = time.monotonic() + SOCKET_SECONDS
        while error.name in repr(self.client.call(api, version, **values)):
            if time.monotonic() > deadline:
                return
            time.sleep(0.05)

    def produce(self, records: bytes | None, version: int = 9, **changes: Any) -> Any:
        """Produce to partition 0, or to another `topic` and `partition`, with other `acks`."""
        data = {"index": changes.pop("partition", 0), "records": records}
        item = {"name": changes.pop("topic", self.topic), "partition_data": [data]}
        if version >= 13:
            item["topic_id"] = changes.pop("topic_id", None) or self.topic_id()
        values = {"acks": -1, "timeout": TIMEOUT} | changes | {"topic_data": [item]}
        if values["acks"] == 0:
            return self._silent(version, values)
        return self.ask(ApiKey.PRODUCE, version, **values)

    def _silent(self, version: int, values: Any) -> None:
        """Send a request without a response; the next one shows whether the connection is open."""
        self.client.send(ApiKey.PRODUCE, version, **values)
        self.ask(ApiKey.METADATA, 9, topics=[])

    def fetch(self, offset: int = 0, version: int = 11, **changes: Any) -> Any:
        from tools.support.raw_client import fetch_values

        if version >= 13 and "topic_id" not in changes:
            changes["topic_id"] = self.topic_id()
        values = fetch_values(changes.pop("topic", self.topic), offset, **changes)
        return self.ask(ApiKey.FETCH, version, **values)

    def _reconnect(self) -> None:
        self.client.socket.close()
        self.client = RawClient(self._servers)
        self.client.socket.settimeout(SOCKET_SECONDS)


def keep_everything(bootstrap_servers: str) -> None:
    """Set log.retention.ms=-1 on the embedded broker, as on the Kafka that it is compared with."""
    change = {"name": "log.retention.ms", "config_operation": 0, "value": "-1"}
    brokers = {"resource_type": 4, "resource_name": "", "configs": [change]}
    with RawClient(bootstrap_servers) as client:
        answer = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[brokers])
    assert answer.responses[0].error_code == 0


def run(scenario: Scenario, bootstrap_servers: str, number: int) -> dict[str, Any]:
    """Run one scenario; an exception is recorded like a response."""
    world = World(bootstrap_servers, f"compared-{number:04}")
    try:
        scenario.play(world)
    except Exception as error:  # noqa: BLE001 - reported as a difference
        world.seen["raised"] = f"{type(error).__name__}: {error}"
    finally:
        world.close()
    return world.seen
