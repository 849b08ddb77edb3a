"""A fake cluster on socket pairs: real frames, no threads, fault injection."""

from __future__ import annotations

import socket
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from spark_kafka_sink.kafka.protocol.frame import FrameReader
from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.messages import build, read_request_header
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    request_type,
    response_type,
)
from tests.support.harness import handlers
from tests.support.harness.coordinator import FakeCoordinator, is_about_transactions
from tests.support.harness.log import FakeLog
from tools.support.frames import response_frame

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from tests.support.harness.sasl import FakeSasl

BASE_PORT = 40_000
HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault for one Produce request.

    `error`: respond with this code for each partition and do not append. `append`: append anyway.
    `lose`: close the connection instead of responding. `hold`: delay the response until `release`.
    `extra`: additional fields of the partition response. `forget`: remove the producer state first,
    as after producer.id.expiration.ms.
    """

    error: int | None = None
    append: bool = False
    lose: bool = False
    hold: bool = False
    forget: bool = False
    throttle_ms: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class ReceivedProduce:
    """A Produce request that a broker received; `at` is the time in seconds."""

    node: int
    version: int
    size: int
    batches: dict[tuple[str, int], bytes]
    acks: int
    transactional_id: str | None = None
    at: float = 0.0


class FakeTransport:
    """The client side of a socket pair."""

    unsent = False
    wants_read = False
    cipher = ""

    def __init__(self, cluster: FakeCluster, node: int) -> None:
        self._cluster, self._node = cluster, node
        self._socket, other = socket.socketpair()
        for end in (self._socket, other):
            end.setblocking(False)
        self._refused = node not in cluster.alive
        cluster.accept(node, other)

    def fileno(self) -> int:
        return self._socket.fileno()

    def finish_connect(self) -> bool:
        if self._refused:
            raise ConnectionRefusedError(111, "Connection refused")
        return True

    def write(self, buffers: Sequence[Buffer]) -> int:
        limit = self._cluster.writable_bytes.get(self._node)
        if limit is not None:
            data = b"".join(bytes(part) for part in buffers)[:limit]
            self._cluster.writable_bytes[self._node] = limit - len(data)
            return self._socket.send(data) if data else 0
        try:
            return self._socket.sendmsg(buffers)
        except BlockingIOError:
            return 0

    def read(self) -> bytes | None:
        try:
            return self._socket.recv(1 << 16)
        except BlockingIOError:
            return None

    def close(self) -> None:
        self._socket.close()


@dataclass
class Peer:
    """The broker side of a connection."""

    node: int
    socket: socket.socket
    frames: FrameReader = field(default_factory=FrameReader)
    held: deque[bytes] = field(default_factory=deque)
    holding: bool = False
    logged_in: bool = False

    def send(self, frame: bytes, *, hold: bool) -> None:
        """Send a response in order: if an earlier response is held, hold this one too."""
        self.holding = self.holding or hold
        self.held.append(frame)
        if not self.holding:
            self.release()

    def release(self) -> None:
        """Send all held responses."""
        self.holding = False
        while self.held:
            self.socket.setblocking(True)
            self.socket.sendall(self.held.popleft())
            self.socket.setblocking(False)


class FakeCluster:
    """Brokers 1 to n on ports 40001 to 40000 + n, and the partitions that they lead."""

    throttle_ms = 0
    """Throttle time in each response to Metadata and InitProducerId."""

    def __init__(self, nodes: int = 1, topics: dict[str, int] | None = None) -> None:
        self.alive = set(range(1, nodes + 1))
        self.still_listed: set[int] = set()
        """Stopped brokers that the metadata still lists."""
        self.unlisted_leaders: set[int] = set()
        """Brokers that are leaders in the metadata but missing from its broker list."""
        self.nodes = nodes
        self.logs: dict[tuple[str, int], FakeLog] = {}
        self.ids: dict[str, UUID] = {}
        self.stale_topic_ids: dict[str, UUID] = {}
        """Outdated topic IDs in metadata responses."""
        self.faults: deque[Fault | None] = deque()
        """Faults for the next Produce requests, in order of arrival; None is no fault."""
        self.init_errors: deque[int] = deque()
        self.metadata_errors: dict[str, int] = {}
        self.uncreatable: set[str] = set()
        """Topics for which the client does not have the Create permission."""
        self.metadata_response_errors: deque[int] = deque()
        """Top-level error codes for the next Metadata responses."""
        self.requested_topics, self.client_ids = list[set[str]](), list[str | None]()
        """The topics of each Metadata request, and the client ID of every request."""
        self.sasl: FakeSasl | None = None
        """The SASL configuration of the brokers, or None if SASL is disabled."""
        self.creates_topics = False
        """auto.create.topics.enable."""
        self.unanswered, self.closing = set[ApiKey](), Counter[ApiKey]()
        """APIs whose requests get no response, and the number of requests of an API on which the
        connection is closed.
        """
        self.writable_bytes: dict[int, int] = {}
        """Bytes that sockets to a broker still accept; unlimited if the broker is missing."""
        self.connected_ports: list[int] = []
        """Ports to which connections were opened."""
        self.seen: list[ReceivedProduce] = []
        self.requests: list[tuple[int, ApiKey]] = []
        self.served_versions: set[tuple[ApiKey, int]] = set()
        """Every API and version that was served."""
        self.versions = dict(CLIENT_VERSIONS)
        """Versions that the brokers advertise and serve; any other version fails the test."""
        self.next_producer_id = 4_000
        self.coordinator = FakeCoordinator()
        self.peers, self._created = list[Peer](), 0
        for name, count in (topics or {}).items():
            self.create(name, count)

    def create(self, name: str, count: int) -> None:
        """Create or recreate a topic; its partition leaders are assigned round-robin."""
        self._created += 1
        self.ids[name] = UUID(int=0x6FFF + self._created)
        for partition in range(count):
            self.logs[name, partition] = FakeLog(leader=1 + partition % self.nodes)

    def move(self, name: str, partition: int, leader: int) -> None:
        """Change the leader of a partition."""
        log = self.logs[name, partition]
        log.leader, log.leader_epoch = leader, log.leader_epoch + 1

    def connect(
        self, address: tuple[int, tuple[str, int]], _send: int = -1, _receive: int = -1
    ) -> FakeTransport:
        """Connect to a broker; the bootstrap address leads to broker 1."""
        port = address[1][1]
        self.connected_ports.append(port)
        return FakeTransport(self, 1 if port == BASE_PORT else port - BASE_PORT)

    def accept(self, node: int, end: socket.socket) -> None:
        """Serve a connection."""
        self.peers.append(Peer(node, end))

    def pump(self) -> None:
        """Read all requests that have arrived and respond to them."""
        for peer in list(self.peers):
            data = self._read(peer)
            if data == b"":
                self.cut(peer)
            elif data:
                for frame in peer.frames.feed(data):
                    if peer in self.peers:
                        self.serve(peer, frame)

    def count(self, api: ApiKey) -> int:
        """Return the number of requests of `api` so far."""
        return sum(requested is api for _, requested in self.requests)

    def forget_producers(self) -> None:
        """Remove the producer state of every partition."""
        for log in self.logs.values():
            log.producers.clear()

    def release(self) -> None:
        """Send all held responses."""
        for peer in self.peers:
            peer.release()

    def stop(self, node: int) -> None:
        """Stop a broker: close its connections and refuse new ones."""
        self.alive.discard(node)
        for peer in [peer for peer in self.peers if peer.node == node]:
            self.cut(peer)

    def close(self) -> None:
        """Close all connections."""
        for peer in list(self.peers):
            self.cut(peer)

    def cut(self, peer: Peer) -> None:
        """Close a connection."""
        self.peers.remove(peer)
        peer.socket.close()

    @staticmethod
    def _read(peer: Peer) -> bytes | None:
        received = bytearray()
        while True:
            try:
                data = peer.socket.recv(1 << 20)
            except BlockingIOError:
                return bytes(received) or None
            except ConnectionResetError:
                return b""
            if not data:
                return bytes(received)
            received += data

    def serve(self, peer: Peer, frame: memoryview) -> None:
        """Respond to a request."""
        header = read_request_header(frame)
        api = ApiKey(header.api_key)
        if api is ApiKey.API_VERSIONS and header.version not in self.versions[api]:
            peer.send(handlers.unsupported(self, header.correlation_id), hold=False)
            return
        assert header.version in self.versions[api], f"{api.name} {header.version} is not served"
        request, _ = decode(request_type(api, header.version), frame, header.body_offset)
        self.requests.append((peer.node, api))
        self.served_versions.add((api, header.version))
        self.client_ids.append(header.client_id)
        if self.sasl is not None and not self.sasl.allows(api, logged_in=peer.logged_in):
            self.cut(peer)
            return
        fault: Fault | None = None
        if api is ApiKey.PRODUCE:
            fault = self.faults.popleft() if self.faults else None
            self.seen.append(handlers.seen(self, peer.node, request, len(frame)))
            response = handlers.produce(self, peer.node, request, fault or Fault())
        elif api is ApiKey.SASL_AUTHENTICATE and self.sasl is not None:
            response = self.sasl.authenticate(peer.node, request)
            peer.logged_in = "error_code" not in response
        elif is_about_transactions(api, request):
            response, injected = self.coordinator.serve(peer.node, api, header.version, request)
            fault = Fault(lose=injected.lose)
        else:
            response = handlers.HANDLERS[api](self, request)
        if api in self.unanswered:
            return
        if self.closing[api]:
            self.closing[api] -= 1
            fault = Fault(lose=True)
        if fault is not None and fault.lose:
            self.cut(peer)
        elif api is not ApiKey.PRODUCE or request.acks != 0:
            entity = build(response_type(api, header.version), response)
            reply = response_frame(entity, header.correlation_id)
            peer.send(reply, hold=fault is not None and fault.hold)

    def listed(self) -> set[int]:
        """Return the brokers that metadata responses list."""
        return self.alive | self.still_listed
