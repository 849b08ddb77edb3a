"""Host names: resolved outside the sender's loop, with every address tried in turn."""

import errno
import os
import socket
from collections.abc import Callable
from contextlib import closing
from random import Random

import pytest

from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.channel.host_names import Address, literal, resolve
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.kafka.client.network_client import NetworkClient
from tests.support.clock import ManualClock
from tests.support.harness.fake import FakeCluster, FakeTransport, Peer
from tests.support.harness.offline import config
from tests.support.harness.resolver import FakeLookups

NAMED = Node(1, "one.test", 40_001)
OTHER = Node(2, "127.0.0.1", 40_002)


def address(port: int) -> Address:
    return (int(socket.AF_INET), ("127.0.0.1", port))


class NetworkScene:
    """A network with fake brokers 1 to 3 and scripted names; `unreachable` are ports."""

    def __init__(self, **options: object) -> None:
        self.clock = ManualClock(5.0)
        self.names = FakeLookups()
        self.cluster = FakeCluster(nodes=3, topics={"t": 1})
        self.unreachable: set[int] = set()
        settings = {"bootstrap_servers": "127.0.0.1:40000", **options}
        self.network = NetworkClient(
            config(**settings), random=Random(1), connect=self.connect, lookups=self.names
        )

    def connect(self, where: Address, send_buffer: int, receive_buffer: int) -> FakeTransport:
        if where[1][1] in self.unreachable:
            raise OSError(errno.ENETUNREACH, os.strerror(errno.ENETUNREACH))
        return self.cluster.connect(where, send_buffer, receive_buffer)

    def turn(self, *nodes: Node) -> None:
        for node in nodes:
            self.network.connect(node, self.clock.monotonic())
        self.network.wakeup()
        self.network.poll(0.0, self.clock.monotonic)
        self.cluster.pump()
        self.clock.advance(0.01)

    def turns(self, count: int, *nodes: Node) -> None:
        for _ in range(count):
            self.turn(*nodes)

    def close(self) -> None:
        self.network.close(self.clock.monotonic())
        self.cluster.close()


@pytest.mark.parametrize(
    "host", ["no-such-host.invalid", "a..b", "x" * 64 + ".test", "nul\0.test", "", "ü" * 80]
)
def test_unknown_name_is_an_error(host: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - the text depends on the system
        resolve(host, 9092)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "10.1.2.3"])
def test_literal_address_needs_no_lookup(host: str) -> None:
    (address,) = literal(host, 9092) or []
    assert address[1][:2] == (host.strip("[]"), 9092)


def test_name_is_not_a_literal_address() -> None:
    assert literal("localhost", 9092) is None


def test_address_keeps_its_scope() -> None:
    (address,) = resolve("fe80::1%lo", 9092)
    assert address[1][3] == socket.if_nametoindex("lo")


def test_every_address_of_a_name_is_returned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [address(9092), (int(socket.AF_INET6), ("::1", 9092, 0, 0))]
    entries = [(family, kind, 0, "", where) for family, where in addresses for kind in range(2)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: entries)
    assert resolve("two.test", 9092) == addresses


@pytest.mark.parametrize("port", [-1, 0, 65_536, 1 << 31])
@pytest.mark.parametrize("host", ["127.0.0.1", "one.test"])
def test_invalid_port_is_an_error(host: str, port: int) -> None:
    with pytest.raises(OSError, match="is not a valid port"):
        literal(host, port)


def test_loop_continues_during_a_lookup() -> None:
    with closing(NetworkScene()) as scene:
        scene.turns(4, NAMED, OTHER)
        assert scene.network.broker(1).state is ChannelState.RESOLVING
        assert list(scene.network.connected()) == [OTHER]
        scene.names.known["one.test"] = [address(40_001)]
        scene.turns(4, NAMED)
        assert list(scene.network.connected()) == [NAMED, OTHER]
        assert scene.names.lookups == ["one.test"]


def test_unresponsive_name_server_times_out() -> None:
    with closing(NetworkScene(socket_connection_setup_timeout_ms=2_000)) as scene:
        scene.turn(NAMED)
        scene.clock.advance(1.9)
        scene.turn(NAMED)
        assert scene.network.failures.reasons == {}
        scene.clock.advance(0.2)
        scene.turn(NAMED)
        assert (
            "timeout while resolving the host name"
            in scene.network.failures.reasons["one.test:40001"]
        )
        assert scene.network.failed_attempts(NAMED) == 1
        scene.names.known["one.test"] = [address(40_001)]
        scene.clock.advance(1.1)
        scene.turns(5, NAMED)
        assert list(scene.network.connected()) == [NAMED]


def test_loop_waits_until_the_lookup_deadline() -> None:
    with closing(NetworkScene(socket_connection_setup_timeout_ms=700)) as scene:
        now = scene.clock.monotonic()
        scene.network.connect(NAMED, now)
        assert scene.network.seconds_until_due(now) == pytest.approx(0.7)


def test_unknown_name_is_a_failure_with_its_reason() -> None:
    with closing(NetworkScene()) as scene:
        scene.names.known["one.test"] = socket.gaierror(-2, "Name or service not known")
        scene.turns(2, NAMED)
        assert scene.network.failures.reasons == {"one.test:40001": "Name or service not known"}


def test_failed_resolver_fails_only_its_connection() -> None:
    with closing(NetworkScene()) as scene:
        scene.names.known["one.test"] = MemoryError("no buffer")
        scene.turns(4, NAMED, OTHER)
        assert "MemoryError" in scene.network.failures.reasons["one.test:40001"]
        assert scene.network.failures.fatal is None
        assert list(scene.network.connected()) == [OTHER]


def test_late_response_is_ignored() -> None:
    with closing(NetworkScene()) as scene:
        scene.turn(NAMED)
        scene.network.connect(Node(1, "127.0.0.1", 40_003), scene.clock.monotonic())
        scene.names.known["one.test"] = [address(40_001)]
        scene.turns(4)
        assert [node.port for node in scene.network.connected()] == [40_003]


def unreachable(scene: NetworkScene) -> None:
    scene.unreachable.add(40_001)


def refusing(scene: NetworkScene) -> None:
    scene.cluster.alive.discard(1)


def disconnecting_immediately(scene: NetworkScene) -> None:
    """Brokers that accept connections and fail at ApiVersions."""
    serve = scene.cluster.serve

    def hang_up(peer: Peer, frame: memoryview) -> None:
        if peer.node == 1:
            scene.cluster.cut(peer)
        else:
            serve(peer, frame)

    scene.cluster.serve = hang_up  # type: ignore[method-assign]


def disconnecting_when_ready(scene: NetworkScene) -> None:
    """Brokers that respond to ApiVersions and then fail."""
    serve = scene.cluster.serve

    def answer_once(peer: Peer, frame: memoryview) -> None:
        serve(peer, frame)
        if peer.node == 1:
            scene.cluster.cut(peer)

    scene.cluster.serve = answer_once  # type: ignore[method-assign]


def unresponsive(scene: NetworkScene) -> None:
    serve = scene.cluster.serve
    scene.cluster.serve = lambda peer, frame: None if peer.node == 1 else serve(peer, frame)  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "trouble",
    [unreachable, refusing, disconnecting_immediately, disconnecting_when_ready, unresponsive],
)
def test_next_address_is_tried_after_a_failure(trouble: Callable[[NetworkScene], None]) -> None:
    with closing(
        NetworkScene(socket_connection_setup_timeout_ms=500, reconnect_backoff_max_ms=50)
    ) as scene:
        scene.names.known["one.test"] = [address(40_001), address(40_002)]
        trouble(scene)
        scene.turns(80, NAMED)
        assert list(scene.network.connected()) == [NAMED]
        assert scene.cluster.connected_ports[-1] == 40_002
        assert len(scene.cluster.connected_ports) <= 2


def test_each_new_connection_resolves_the_name_again() -> None:
    with closing(NetworkScene(reconnect_backoff_max_ms=50)) as scene:
        scene.names.known["one.test"] = [address(40_001)]
        scene.turns(5, NAMED)
        scene.names.known["one.test"] = [address(40_002)]
        scene.cluster.stop(1)
        scene.turns(20, NAMED)
        assert scene.cluster.connected_ports == [40_001, 40_002]
        assert list(scene.network.connected()) == [NAMED]
        assert scene.names.lookups == ["one.test"] * 2


def test_all_addresses_are_tried_if_each_fails_in_turn() -> None:
    with closing(NetworkScene(reconnect_backoff_max_ms=50)) as scene:
        scene.names.known["one.test"] = [address(40_000 + number) for number in (1, 2, 3)]
        serve = scene.cluster.serve

        def answer_once(peer: Peer, frame: memoryview) -> None:
            serve(peer, frame)
            scene.cluster.cut(peer)

        scene.cluster.serve = answer_once  # type: ignore[method-assign]
        scene.turns(100, NAMED)
        assert scene.cluster.connected_ports[:6] == [40_001, 40_002, 40_003] * 2
