"""Connections: setup, failures, timeouts and idle closing; stores are read outside the loop."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event

import pytest

from spark_kafka_sink.common.errors import ConfigError, DeliveryError
from spark_kafka_sink.config.security.security_config import TlsConfig
from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.kafka.client.network_client import NetworkClient
from spark_kafka_sink.kafka.client.request import Completion
from spark_kafka_sink.kafka.security.tls.context_cache import ContextCache
from tests.support.clock import ManualClock
from tests.support.harness.fake import FakeCluster, Fault, Peer
from tests.support.harness.offline import config
from tests.support.harness.sasl import ManualCalls
from tests.support.harness.world import World, world

NODE = Node(1, "127.0.0.1", 40_001)
OPTIONS = {"bootstrap_servers": "127.0.0.1:40000"}

SETUP_MS = 2_000
WAIT_TIMEOUT_S = 20.0


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    fake_cluster = FakeCluster(nodes=2, topics={"t": 2})
    yield fake_cluster
    fake_cluster.close()


def network_client(cluster: FakeCluster, clock: ManualClock, **options: object) -> NetworkClient:
    return NetworkClient(
        config(**{**OPTIONS, **options}), random=Random(1), connect=cluster.connect
    )


def turn(network: NetworkClient, cluster: FakeCluster, clock: ManualClock) -> list[Completion]:
    network.wakeup()
    done = network.poll(0.0, clock.monotonic)
    cluster.pump()
    return done


def test_readiness_query_has_no_side_effects(cluster: FakeCluster) -> None:
    network = network_client(cluster, ManualClock(5.0))
    assert not network.is_ready(NODE, 5.0)
    assert (network.brokers(), cluster.connected_ports) == ([], [])
    network.connect(NODE, 5.0)
    assert len(cluster.connected_ports) == 1
    network.close(5.0)


def test_refused_connections_back_off_and_log_the_reason(cluster: FakeCluster) -> None:
    clock = ManualClock(5.0)
    cluster.alive.clear()
    network = network_client(
        cluster, clock, reconnect_backoff_ms=50, reconnect_backoff_max_ms=1_000
    )
    waits = []
    for _ in range(30):
        network.connect(NODE, clock.monotonic())
        turn(network, cluster, clock)
        wait = network.broker(1).attempts.retry_at - clock.monotonic()
        waits.append(wait)
        clock.advance(max(wait, 0.0) + 0.001)
    assert network.failures.reasons == {"127.0.0.1:40001": "Connection refused"}
    assert max(waits) <= 1.0
    assert max(waits[10:]) > 0.3
    network.close(5.0)


def test_unresponsive_server_times_out(cluster: FakeCluster) -> None:
    clock = ManualClock(5.0)
    network = network_client(cluster, clock, socket_connection_setup_timeout_ms=2_000)
    network.connect(NODE, 5.0)
    network.wakeup()
    network.poll(0.0, clock.monotonic)  # connected, but the cluster never responds
    clock.advance(1.9)
    turn_without_broker(network, clock)
    assert network.failures.reasons == {}
    clock.advance(0.2)
    turn_without_broker(network, clock)
    assert (
        "timeout while waiting for the response to ApiVersions"
        in network.failures.reasons["127.0.0.1:40001"]
    )
    network.close(clock.monotonic())


def turn_without_broker(network: NetworkClient, clock: ManualClock) -> None:
    network.wakeup()
    network.poll(0.0, clock.monotonic)


def test_idle_connections_are_closed(cluster: FakeCluster) -> None:
    clock = ManualClock(5.0)
    network = network_client(cluster, clock, connections_max_idle_ms=10_000)
    network.connect(NODE, 5.0)
    for _ in range(4):
        turn(network, cluster, clock)
    clock.advance(9.0)
    turn(network, cluster, clock)
    assert list(network.connected()) == [NODE]
    clock.advance(2.0)
    turn(network, cluster, clock)
    assert list(network.connected()) == []
    turn(network, cluster, clock)
    assert len(cluster.peers) == 0
    network.close(clock.monotonic())


def test_new_address_opens_a_new_connection(cluster: FakeCluster) -> None:
    clock = ManualClock(5.0)
    network = network_client(cluster, clock)
    network.connect(NODE, 5.0)
    for _ in range(4):
        turn(network, cluster, clock)
    assert network.is_ready(NODE, 5.0)
    moved = Node(1, "127.0.0.1", 40_002)
    assert not network.is_ready(moved, 5.0)
    network.connect(moved, 5.0)
    for _ in range(4):
        turn(network, cluster, clock)
    assert list(network.connected()) == [moved]
    network.close(5.0)


def test_invalid_response_closes_the_connection(sim: World) -> None:
    """Its requests in flight are sent again."""
    sim.deliver_batches(1)
    sim.fault(Fault(extra={"base_offset": 0}))
    real = sim.cluster.serve

    def serve_broken(peer: Peer, frame: memoryview) -> None:
        sim.cluster.serve = real  # type: ignore[method-assign]
        real(peer, frame)
        peer.socket.send(b"\x00\x00\x00\x06nonsense"[:10])

    sim.cluster.serve = serve_broken  # type: ignore[method-assign]
    sim.deliver_batches(3)
    assert sim.cluster.logs["t", 0].end == 12
    sim.check_accounting()


def test_delivery_error_without_a_broker_names_the_reason() -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, delivery_timeout_ms=31_000) as sim:
        cluster.stop(1)
        sim.send_batches(1)
        with pytest.raises(DeliveryError, match="Connection refused"):
            sim.finish(0.25)


class StoreReader:
    """Reads the stores, and can hang."""

    def __init__(self) -> None:
        self.answering = Event()
        self.answering.set()
        self.reads = 0

    def __call__(self, _: TlsConfig) -> ssl.SSLContext:
        assert self.answering.wait(WAIT_TIMEOUT_S)
        self.reads += 1
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreReader]:
    reader = StoreReader()
    cache = ContextCache(reader)
    monkeypatch.setattr("spark_kafka_sink.kafka.security.tls.context_cache.broker_contexts", cache)
    yield reader
    reader.answering.set()


class TlsClientHarness:
    """A TLS client whose truststore is a file."""

    def __init__(self, file: Path, logins: ManualCalls | None = None) -> None:
        self.clock, self.cluster, self.file = ManualClock(5.0), FakeCluster(), file
        file.write_text("first")
        options = {
            "bootstrap_servers": "127.0.0.1:40001",
            "security_protocol": "SSL",
            "ssl_truststore_type": "PEM",
            "ssl_truststore_location": str(file),
            "socket_connection_setup_timeout_ms": SETUP_MS,
        }
        self.network = NetworkClient(
            config(**options), random=Random(1), connect=self.cluster.connect, logins=logins
        )

    def turn(self) -> ChannelState:
        self.network.connect(NODE, self.clock.monotonic())
        self.network.wakeup()
        self.network.poll(0.0, self.clock.monotonic)
        return self.network.broker(1).state

    def until(self, state: ChannelState) -> None:
        """Run the loop until the connection reaches the state."""
        for _ in range(1_000):
            if self.turn() is state:
                return
            self.network.poll(WAIT_TIMEOUT_S, self.clock.monotonic)
        raise AssertionError(f"no connection is {state}")

    def close(self) -> None:
        self.network.close(self.clock.monotonic())
        self.cluster.close()


def test_loop_continues_while_a_store_is_read(stores: StoreReader, tmp_path: Path) -> None:
    scene = TlsClientHarness(tmp_path / "ca.pem")
    stores.answering.clear()
    scene.file.write_text("second one")
    for _ in range(10):  # each would wait for the file
        assert scene.turn() is ChannelState.LOADING_STORES
    stores.answering.set()
    scene.until(ChannelState.TLS_HANDSHAKE)
    assert stores.reads == 2
    scene.close()


def test_hanging_store_times_out(stores: StoreReader, tmp_path: Path) -> None:
    calls = ManualCalls()
    scene = TlsClientHarness(tmp_path / "ca.pem", calls)
    calls.holding = True
    scene.turn()
    scene.clock.advance(SETUP_MS / 1_000 - 0.1)
    scene.turn()
    assert scene.network.failures.reasons == {}
    scene.clock.advance(0.2)
    scene.turn()
    assert "the truststore or the keystore" in scene.network.failures.reasons[str(NODE)]
    assert scene.cluster.connected_ports == []
    assert not calls.waiting  # The connection is closed: nothing needs its stores.
    calls.holding = False
    scene.clock.advance(1.1)
    scene.turn()
    assert scene.turn() is ChannelState.TLS_HANDSHAKE
    scene.close()


def test_unreadable_store_fails_the_client(stores: StoreReader, tmp_path: Path) -> None:
    calls = ManualCalls()
    scene = TlsClientHarness(tmp_path / "ca.pem", calls)
    calls.error = ConfigError("option kafka.ssl.truststore.location refers to a missing file")
    scene.turn()
    fatal = scene.network.failures.fatal
    assert isinstance(fatal, ConfigError)
    assert "kafka.ssl.truststore.location" in str(fatal)
    assert str(NODE) in str(fatal)
    scene.close()
