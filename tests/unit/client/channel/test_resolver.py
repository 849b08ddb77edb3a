"""Names: looked up beside the sender's loop, every address of a name tried in turn."""

from __future__ import annotations

import errno
import os
import socket
import threading
from random import Random
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.client.channel.resolver import ThreadResolver, literal, resolve
from spark_kafka_sink.client.channel.transport import State
from spark_kafka_sink.client.cluster_snapshot import Node
from spark_kafka_sink.client.network import Network
from spark_kafka_sink.common.clock import ManualClock
from tests.support.harness.fake import FakeCluster, Peer
from tests.support.harness.offline import config
from tests.support.harness.resolver import FakeResolver

if TYPE_CHECKING:
    from collections.abc import Callable

    from spark_kafka_sink.client.channel.resolver import Address, Resolution
    from tests.support.harness.fake import FakeTransport

NAMED = Node(1, "one.test", 40_001)
OTHER = Node(2, "127.0.0.1", 40_002)


def address(port: int) -> Address:
    return (int(socket.AF_INET), ("127.0.0.1", port))


class Scene:
    """A network, fake brokers 1 to 3, names that a test answers; ports in `broken` are no use.

    A broker in `dying` hangs up when it has answered ApiVersions.
    """

    def __init__(self, **options: object) -> None:
        self.clock = ManualClock(5.0)
        self.names = FakeResolver()
        self.cluster = FakeCluster(nodes=3, topics={"t": 1})
        self.unreachable: set[int] = set()
        given = {"bootstrap_servers": "127.0.0.1:40000", **options}
        self.network = Network(config(**given), Random(1), self.connect, self.names)

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


def waited_for(resolver: ThreadResolver, done: threading.Event) -> list[Resolution]:
    assert done.wait(20)
    done.clear()
    return resolver.resolutions()


def test_a_slow_name_delays_no_other() -> None:
    release, woken = threading.Event(), threading.Event()

    def look_up(host: str, port: int) -> list[Address]:
        if host == "slow.test":
            assert release.wait(20)
        return [address(port)]

    resolver = ThreadResolver(look_up)
    resolver.ask("slow.test", 1, woken.set)
    for number in range(50):
        resolver.ask("fast.test", number + 2, woken.set)
        (found,) = waited_for(resolver, woken)
        assert (found.host, found.addresses) == ("fast.test", [address(number + 2)])
    release.set()
    (found,) = waited_for(resolver, woken)
    assert (found.host, found.error) == ("slow.test", None)


def test_a_name_that_is_being_looked_up_is_not_asked_for_again() -> None:
    release, woken, asked = threading.Event(), threading.Event(), []

    def look_up(host: str, port: int) -> list[Address]:
        asked.append(host)
        assert release.wait(20)
        return [address(port)]

    resolver = ThreadResolver(look_up)
    for _ in range(3):
        resolver.ask("slow.test", 1, woken.set)
    release.set()
    assert len(waited_for(resolver, woken)) == 1
    assert asked == ["slow.test"]
    resolver.ask("slow.test", 1, woken.set)
    assert len(waited_for(resolver, woken)) == 1
    assert asked == ["slow.test"] * 2


@pytest.mark.parametrize(
    "host", ["no-such-host.invalid", "a..b", "x" * 64 + ".test", "nul\0.test", "", "ü" * 80]
)
def test_what_is_no_name_is_an_error_that_is_handed_back(host: str) -> None:
    woken = threading.Event()
    resolver = ThreadResolver()
    resolver.ask(host, 9092, woken.set)
    (found,) = waited_for(resolver, woken)
    assert isinstance(found.error, OSError)
    assert found.addresses == []


def test_a_process_that_may_have_no_more_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    woken, resolver = threading.Event(), ThreadResolver()
    monkeypatch.setattr(threading.Thread, "start", start)
    resolver.ask("one.test", 1, woken.set)
    (found,) = waited_for(resolver, woken)
    assert "can't start new thread" in str(found.error)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "[::1]", "10.1.2.3"])
def test_a_literal_address_needs_no_look_up(host: str) -> None:
    (found,) = literal(host, 9092) or []
    assert found[1][:2] == (host.strip("[]"), 9092)


def test_a_name_is_no_literal_address() -> None:
    assert literal("localhost", 9092) is None


def test_an_address_keeps_its_scope() -> None:
    (found,) = resolve("fe80::1%lo", 9092)
    assert found[1][3] == socket.if_nametoindex("lo")


@pytest.mark.parametrize("port", [-1, 0, 65_536, 1 << 31])
@pytest.mark.parametrize("host", ["127.0.0.1", "one.test"])
def test_a_port_that_is_none_is_an_error(host: str, port: int) -> None:
    with pytest.raises(OSError, match="is not a valid port"):
        literal(host, port)


def test_the_loop_goes_on_while_a_name_is_looked_up() -> None:
    scene = Scene()
    scene.turns(4, NAMED, OTHER)
    assert scene.network.broker(1).connection.state is State.RESOLVING
    assert list(scene.network.connected()) == [OTHER]
    scene.names.known["one.test"] = [address(40_001)]
    scene.turns(4, NAMED)
    assert list(scene.network.connected()) == [NAMED, OTHER]
    assert scene.names.asked == ["one.test"]
    scene.close()


def test_a_name_server_that_does_not_answer_is_given_up_for_now() -> None:
    scene = Scene(socket_connection_setup_timeout_ms=2_000)
    scene.turn(NAMED)
    scene.clock.advance(1.9)
    scene.turn(NAMED)
    assert scene.network.failures.reasons == {}
    scene.clock.advance(0.2)
    scene.turn(NAMED)
    assert (
        "timeout while resolving the host name" in scene.network.failures.reasons["one.test:40001"]
    )
    assert scene.network.attempts(NAMED) == 1
    scene.names.known["one.test"] = [address(40_001)]
    scene.clock.advance(1.1)
    scene.turns(5, NAMED)
    assert list(scene.network.connected()) == [NAMED]
    scene.close()


def test_the_deadline_of_a_look_up_is_waited_for() -> None:
    scene = Scene(socket_connection_setup_timeout_ms=700)
    now = scene.clock.monotonic()
    scene.network.connect(NAMED, now)
    assert scene.network.next_deadline(now) == pytest.approx(0.7)
    scene.close()


def test_an_unknown_name_is_a_failure_with_its_reason() -> None:
    scene = Scene()
    scene.names.known["one.test"] = socket.gaierror(-2, "Name or service not known")
    scene.turns(2, NAMED)
    assert scene.network.failures.reasons == {"one.test:40001": "Name or service not known"}
    scene.close()


def test_an_answer_that_nobody_waits_for_any_more_changes_nothing() -> None:
    scene = Scene()
    scene.turn(NAMED)
    scene.network.connect(Node(1, "127.0.0.1", 40_003), scene.clock.monotonic())
    scene.names.known["one.test"] = [address(40_001)]
    scene.turns(4)
    assert [node.port for node in scene.network.connected()] == [40_003]
    scene.close()


def unreachable(scene: Scene) -> None:
    scene.unreachable.add(40_001)


def refusing(scene: Scene) -> None:
    scene.cluster.alive.discard(1)


def hanging_up_on_sight(scene: Scene) -> None:
    """It accepts, and dies in ApiVersions."""
    serve = scene.cluster._serve

    def hang_up(peer: Peer, frame: memoryview) -> None:
        if peer.node == 1:
            scene.cluster._cut(peer)
        else:
            serve(peer, frame)

    scene.cluster._serve = hang_up  # type: ignore[method-assign]


def hanging_up_when_ready(scene: Scene) -> None:
    """It answers ApiVersions, and dies then."""
    serve = scene.cluster._serve

    def answer_once(peer: Peer, frame: memoryview) -> None:
        serve(peer, frame)
        if peer.node == 1:
            scene.cluster._cut(peer)

    scene.cluster._serve = answer_once  # type: ignore[method-assign]


def saying_nothing(scene: Scene) -> None:
    serve = scene.cluster._serve
    scene.cluster._serve = lambda peer, frame: None if peer.node == 1 else serve(peer, frame)  # type: ignore[method-assign]


@pytest.mark.parametrize(
    "trouble",
    [unreachable, refusing, hanging_up_on_sight, hanging_up_when_ready, saying_nothing],
)
def test_a_bad_address_leads_on_to_the_next_one(trouble: Callable[[Scene], None]) -> None:
    scene = Scene(socket_connection_setup_timeout_ms=500, reconnect_backoff_max_ms=50)
    scene.names.known["one.test"] = [address(40_001), address(40_002)]
    trouble(scene)
    scene.turns(80, NAMED)
    assert list(scene.network.connected()) == [NAMED]
    assert scene.cluster.connected_ports[-1] == 40_002
    assert len(scene.cluster.connected_ports) <= 2
    scene.close()


def test_each_new_connection_looks_the_name_up_again() -> None:
    scene = Scene(reconnect_backoff_max_ms=50)
    scene.names.known["one.test"] = [address(40_001)]
    scene.turns(5, NAMED)
    scene.names.known["one.test"] = [address(40_002)]
    scene.cluster.stop(1)
    scene.turns(20, NAMED)
    assert scene.cluster.connected_ports == [40_001, 40_002]
    assert list(scene.network.connected()) == [NAMED]
    assert scene.names.asked == ["one.test"] * 2
    scene.close()


def test_all_addresses_have_their_turn_when_each_dies_in_turn() -> None:
    scene = Scene(reconnect_backoff_max_ms=50)
    scene.names.known["one.test"] = [address(40_000 + number) for number in (1, 2, 3)]
    serve = scene.cluster._serve

    def answer_once(peer: Peer, frame: memoryview) -> None:
        serve(peer, frame)
        scene.cluster._cut(peer)

    scene.cluster._serve = answer_once  # type: ignore[method-assign]
    scene.turns(100, NAMED)
    assert scene.cluster.connected_ports[:6] == [40_001, 40_002, 40_003] * 2
    scene.close()
