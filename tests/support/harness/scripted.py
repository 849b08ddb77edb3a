"""Fake brokers whose responses are scripted by a test, for blocking clients."""

from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import Buffer

from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.protocol.error_codes import as_error_code
from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.messages import build, read_request_header
from spark_kafka_sink.kafka.protocol.versions import (
    ApiKey,
    VersionRange,
    request_type,
    response_type,
)
from tests.support.harness.fake import FakeCluster, FakeTransport, Peer
from tests.support.harness.handlers import api_versions
from tests.support.harness.offline import config
from tools.support.frames import response_frame

Script = Callable[[int, Any], dict[str, Any] | None]
"""Maps broker and request to a response, or to None to close the connection."""


class PumpedTransport(FakeTransport):
    """A transport whose brokers respond immediately after each write."""

    def write(self, buffers: Sequence[Buffer]) -> int:
        written = super().write(buffers)
        self._cluster.pump()
        return written


class ScriptedCluster(FakeCluster):
    """`scripts` replace the default handlers; `log` contains the requests that they received.

    `levels`: levels of the finalized features by name.
    """

    def __init__(self, nodes: int = 1, topics: dict[str, int] | None = None) -> None:
        super().__init__(nodes, topics)
        self.scripts: dict[ApiKey, Script] = {ApiKey.API_VERSIONS: self._announce}
        self.log: list[tuple[int, ApiKey, int, Any]] = []
        """Broker, API, version and request of each call."""
        self.levels = {"transaction.version": 2}

    def limit(self, api: ApiKey, versions: VersionRange | None) -> None:
        """Serve only these versions of an API; None removes the API."""
        if versions is None:
            self.versions.pop(api)
        else:
            self.versions[api] = versions

    def requests_for(self, api: ApiKey) -> list[tuple[int, Any]]:
        """Return the broker and request of each call of an API."""
        return [(node, request) for node, known, _, request in self.log if known is api]

    def versions_of(self, api: ApiKey) -> set[int]:
        """Return the versions of an API that clients requested."""
        return {version for _, known, version, _ in self.log if known is api}

    def connect(
        self, address: tuple[int, tuple[str, int]], _send: int = -1, _receive: int = -1
    ) -> FakeTransport:
        port = address[1][1]
        self.connected_ports.append(port)
        return PumpedTransport(self, 1 if port == 40_000 else port - 40_000)

    def _announce(self, _node: int, request: Any) -> dict[str, Any]:
        finalized = [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in self.levels.items()
        ]
        features = {"finalized_features": finalized, "finalized_features_epoch": 1}
        return api_versions(self, request) | features

    def serve(self, peer: Peer, frame: memoryview) -> None:
        header = read_request_header(frame)
        api = ApiKey(header.api_key)
        script = self.scripts.get(api)
        if script is None or header.version not in self.versions.get(api, ()):
            super().serve(peer, frame)
            return
        request, _ = decode(request_type(api, header.version), frame, header.body_offset)
        self.log.append((peer.node, api, header.version, request))
        if api in self.unanswered:
            return
        response = script(peer.node, request)
        if response is None:
            self.cut(peer)
            return
        entity = build(response_type(api, header.version), response)
        peer.send(response_frame(entity, header.correlation_id), hold=False)


def blocking_client(cluster: FakeCluster, **options: object) -> BlockingClient:
    """Return a client of the fake brokers with short backoffs."""
    quick = {
        "bootstrap_servers": "127.0.0.1:40000",
        "retry_backoff_ms": 2,
        "retry_backoff_max_ms": 8,
        "reconnect_backoff_ms": 2,
        "reconnect_backoff_max_ms": 8,
    }
    return BlockingClient(config(**(quick | options)), connect=cluster.connect)


def code(number: int) -> dict[str, Any]:
    """Return a response, or a part of one, with only an error code."""
    return {"error_code": as_error_code(number)}
