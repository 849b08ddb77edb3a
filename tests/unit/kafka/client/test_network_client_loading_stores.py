"""Certificate stores are read outside the sender's loop."""

import ssl
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event

import pytest

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.security.security_config import TlsConfig
from spark_kafka_sink.kafka.client.channel.transport import State
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.kafka.client.network_client import NetworkClient
from spark_kafka_sink.kafka.security.tls.client_context import ContextCache
from tests.support.clock import ManualClock
from tests.support.harness.fake import FakeCluster
from tests.support.harness.offline import config
from tests.support.harness.sasl import ManualSteps

NODE = Node(1, "127.0.0.1", 40_001)
SETUP_MS = 2_000
PATIENCE_S = 20.0


class StoreReader:
    """Reads the stores, and can hang."""

    def __init__(self) -> None:
        self.answering = Event()
        self.answering.set()
        self.reads = 0

    def __call__(self, _: TlsConfig) -> ssl.SSLContext:
        assert self.answering.wait(PATIENCE_S)
        self.reads += 1
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


@pytest.fixture
def stores(monkeypatch: pytest.MonkeyPatch) -> Iterator[StoreReader]:
    reader = StoreReader()
    cache = ContextCache(reader)
    monkeypatch.setattr("spark_kafka_sink.kafka.security.tls.client_context.CONTEXTS", cache)
    yield reader
    reader.answering.set()


class TlsScene:
    """A TLS client whose truststore is a file."""

    def __init__(self, file: Path, logins: ManualSteps | None = None) -> None:
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

    def turn(self) -> State:
        self.network.connect(NODE, self.clock.monotonic())
        self.network.wakeup()
        self.network.poll(0.0, self.clock.monotonic)
        return self.network.broker(1).connection.state

    def until(self, state: State) -> None:
        """Run the loop until the connection reaches the state."""
        for _ in range(1_000):
            if self.turn() is state:
                return
            self.network.poll(PATIENCE_S, self.clock.monotonic)
        raise AssertionError(f"no connection is {state}")

    def close(self) -> None:
        self.network.close(self.clock.monotonic())
        self.cluster.close()


def test_loop_continues_while_a_store_is_read(stores: StoreReader, tmp_path: Path) -> None:
    scene = TlsScene(tmp_path / "ca.pem")
    stores.answering.clear()
    scene.file.write_text("second one")
    for _ in range(10):  # each would wait for the file
        assert scene.turn() is State.LOADING_STORES
    stores.answering.set()
    scene.until(State.TLS_HANDSHAKE)
    assert stores.reads == 2
    scene.close()


def test_hanging_store_times_out(stores: StoreReader, tmp_path: Path) -> None:
    steps = ManualSteps()
    scene = TlsScene(tmp_path / "ca.pem", steps)
    steps.holding = True
    scene.turn()
    scene.clock.advance(SETUP_MS / 1_000 - 0.1)
    scene.turn()
    assert scene.network.failures.reasons == {}
    scene.clock.advance(0.2)
    scene.turn()
    assert "the truststore or the keystore" in scene.network.failures.reasons[str(NODE)]
    assert scene.cluster.connected_ports == []
    steps.holding = False
    scene.clock.advance(1.1)
    scene.turn()
    assert scene.turn() is State.TLS_HANDSHAKE
    scene.close()


def test_unreadable_store_fails_the_client(stores: StoreReader, tmp_path: Path) -> None:
    steps = ManualSteps()
    scene = TlsScene(tmp_path / "ca.pem", steps)
    steps.error = ConfigError("option kafka.ssl.truststore.location refers to a missing file")
    scene.turn()
    fatal = scene.network.failures.fatal
    assert isinstance(fatal, ConfigError)
    assert "kafka.ssl.truststore.location" in str(fatal)
    assert str(NODE) in str(fatal)
    scene.close()
