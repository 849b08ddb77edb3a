"""A scripted cluster behind socket pairs: real frames, no threads, faults on demand."""

from __future__ import annotations

import socket
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.frame import FrameReader
from spark_kafka_sink.protocol.messages import build, read_request_header, response_frame
from spark_kafka_sink.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    request_type,
    response_type,
)
from tests.support.harness import handlers
from tests.support.harness.coordinator import FakeCoordinator, is_about_transactions
from tests.support.harness.log import FakeLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from tests.support.harness.sasl import FakeSasl

BASE_PORT = 40_000
HOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens to one Produce request instead of the usual.

    `error`: each partition is answered with this code, and nothing is appended. `append`: the
    records are appended all the same. `lose`: the connection is cut instead of an answer.
    `hold`: the answer waits until `release`. `extra`: fields of the partition's answer. `forget`:
    the broker loses its producer state first, as after producer.id.expiration.ms.
    """

    error: int | None = None
    append: bool = False
    lose: bool = False
    hold: bool = False
    forget: bool = False
    throttle_ms: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Seen:
    """A Produce request as a broker received it."""

    node: int
    version: int
    size: int
    batches: dict[tuple[str, int], bytes]
    acks: int
    transactional_id: str | None = None
    at: float = 0.0


class FakeTransport:
    """The client's end of a socket pair."""

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
        room = self._cluster.room.get(self._node)
        if room is not None:
            data = b"".join(bytes(part) for part in buffers)[:room]
            self._cluster.room[self._node] = room - len(data)
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
    """The broker's end of a connection."""

    node: int
    socket: socket.socket
    frames: FrameReader = field(default_factory=FrameReader)
    held: deque[bytes] = field(default_factory=deque)
    holding: bool = False
    logged_in: bool = False

    def send(self, frame: bytes, *, hold: bool) -> None:
        """Answers keep their order: behind one that is held, all are."""
        self.holding = self.holding or hold
        self.held.append(frame)
        if not self.holding:
            self.release()

    def release(self) -> None:
        """Let everything go that was held."""
        self.holding = False
        while self.held:
            self.socket.setblocking(True)
            self.socket.sendall(self.held.popleft())
            self.socket.setblocking(False)


class FakeCluster:
    """Brokers 1 .. n at ports 40001 .. 40000 + n, and the partitions that they lead."""

    throttle_ms = 0
    """The pause that each answer to Metadata and InitProducerId asks for."""

    def __init__(self, nodes: int = 1, topics: dict[str, int] | None = None) -> None:
        self.alive = set(range(1, nodes + 1))
        self.unnoticed: set[int] = set()
        """Brokers that are gone, although the metadata still has them."""
        self.nameless: set[int] = set()
        """Brokers that the metadata names as leaders and does not list."""
        self.nodes = nodes
        self.logs: dict[tuple[str, int], FakeLog] = {}
        self.ids: dict[str, UUID] = {}
        self.told_ids: dict[str, UUID] = {}
        """What the metadata calls a topic, where it lags behind."""
        self.faults: deque[Fault | None] = deque()
        """For the next Produce requests, in the order in which they come; then none."""
        self.init_errors: deque[int] = deque()
        self.metadata_errors: dict[str, int] = {}
        self.uncreatable: set[str] = set()
        """Topics that the client lacks Create on."""
        self.metadata_refusals: deque[int] = deque()
        """For the next Metadata requests: the error code of the whole answer."""
        self.asked_about, self.client_ids = list[set[str]](), list[str | None]()
        """The topics of each Metadata request, and the client id of every request."""
        self.sasl: FakeSasl | None = None
        """What the brokers ask of a login; None where they have no SASL."""
        self.creates_topics = False
        """auto.create.topics.enable."""
        self.mute: set[ApiKey] = set()
        """Requests that get no answer."""
        self.room: dict[int, int] = {}
        """Bytes that sockets to a broker still take, where that is limited."""
        self.dialled: list[int] = []
        """Ports that connections were opened to."""
        self.seen: list[Seen] = []
        self.requests: list[tuple[int, ApiKey]] = []
        self.asked: set[tuple[ApiKey, int]] = set()
        """Every API and version that was asked for and served."""
        self.versions = dict(CLIENT_VERSIONS)
        """What the brokers announce and serve; another version of an API fails the test."""
        self.next_producer_id = 4_000
        self.coordinator = FakeCoordinator()
        self._peers, self._created = list[Peer](), 0
        for name, count in (topics or {}).items():
            self.create(name, count)

    def create(self, name: str, count: int) -> None:
        """Add a topic, its partitions led by the brokers in turn; one of this name is deleted."""
        self._created += 1
        self.ids[name] = UUID(int=0x6FFF + self._created)
        for partition in range(count):
            self.logs[name, partition] = FakeLog(leader=1 + partition % self.nodes)

    def move(self, name: str, partition: int, leader: int) -> None:
        """Another broker leads from now on."""
        log = self.logs[name, partition]
        log.leader, log.leader_epoch = leader, log.leader_epoch + 1

    def connect(
        self, address: tuple[int, tuple[str, int]], _send: int = -1, _receive: int = -1
    ) -> FakeTransport:
        """What a client takes for its `connect`; the bootstrap address is that of broker 1."""
        port = address[1][1]
        self.dialled.append(port)
        return FakeTransport(self, 1 if port == BASE_PORT else port - BASE_PORT)

    def accept(self, node: int, end: socket.socket) -> None:
        """Serve a connection."""
        self._peers.append(Peer(node, end))

    def pump(self) -> None:
        """Read all requests that have arrived and answer them."""
        for peer in list(self._peers):
            data = self._read(peer)
            if data == b"":
                self._cut(peer)
            elif data:
                for frame in peer.frames.feed(data):
                    if peer in self._peers:
                        self._serve(peer, frame)

    def forget_producers(self) -> None:
        """No partition knows any producer any more."""
        for log in self.logs.values():
            log.producers.clear()

    def release(self) -> None:
        """Send every answer that was held."""
        for peer in self._peers:
            peer.release()

    def stop(self, node: int) -> None:
        """The broker is gone: its connections break, new ones are refused."""
        self.alive.discard(node)
        for peer in [peer for peer in self._peers if peer.node == node]:
            self._cut(peer)

    def close(self) -> None:
        """Close all connections."""
        for peer in list(self._peers):
            self._cut(peer)

    @property
    def connections(self) -> int:
        """Connections that are open."""
        return len(self._peers)

    def _cut(self, peer: Peer) -> None:
        self._peers.remove(peer)
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

    def _serve(self, peer: Peer, frame: memoryview) -> None:
        header = read_request_header(frame)
        api = ApiKey(header.api_key)
        if api is ApiKey.API_VERSIONS and header.version not in self.versions[api]:
            peer.send(handlers.unsupported(self, header.correlation_id), hold=False)
            return
        assert header.version in self.versions[api], f"{api.name} {header.version} is not served"
        request, _ = decode(request_type(api, header.version), frame, header.body_offset)
        self.requests.append((peer.node, api))
        self.asked.add((api, header.version))
        self.client_ids.append(header.client_id)
        if self.sasl is not None and not self.sasl.allows(api, logged_in=peer.logged_in):
            self._cut(peer)
            return
        fault: Fault | None = None
        if api is ApiKey.PRODUCE:
            fault = self.faults.popleft() if self.faults else None
            self.seen.append(handlers.seen(self, peer.node, request, len(frame)))
            answer = handlers.produce(self, peer.node, request, fault or Fault())
        elif api is ApiKey.SASL_AUTHENTICATE and self.sasl is not None:
            answer = self.sasl.authenticate(peer.node, request)
            peer.logged_in = "error_code" not in answer
        elif is_about_transactions(api, request):
            answer, trouble = self.coordinator.serve(peer.node, api, header.version, request)
            fault = Fault(lose=trouble.lose)
        else:
            answer = handlers.HANDLERS[api](self, request)
        if api in self.mute:
            return
        if fault is not None and fault.lose:
            self._cut(peer)
        elif api is not ApiKey.PRODUCE or request.acks != 0:
            entity = build(response_type(api, header.version), answer)
            reply = response_frame(entity, header.correlation_id)
            peer.send(reply, hold=fault is not None and fault.hold)

    def listed(self) -> set[int]:
        """The brokers that the metadata has."""
        return self.alive | self.unnoticed
