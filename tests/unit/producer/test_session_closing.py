"""The end of a session: threads stop, and reports never block it."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event, Thread
from typing import NoReturn

import pytest

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.common.histogram import Histogram, HistogramBuilder
from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
from spark_kafka_sink.kafka.client.client import THREAD_CHECK_S, Client
from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.session import ProducerSession
from tests.support.clock import ManualClock
from tests.support.harness.offline import START_MS, ManualClient, config

SOON = 10.0
NODE = Node(1, "boot", 9092)


class InUse(HistogramBuilder):
    """A counter to which another thread is adding."""

    def roll(self) -> Histogram:
        raise ValueError("operands could not be broadcast together")


class BlockedLoop:
    """A loop whose first turn lasts until it is released."""

    def __init__(self) -> None:
        self.entered, self.released = Event(), Event()
        self.running = False
        self.error: BaseException | None = None
        self.broker_meters = BrokerMeters()

    def run_once(self) -> None:
        self.running = True
        self.entered.set()
        assert self.released.wait(SOON)
        self.running = False

    def handle_crash(self, error: BaseException) -> None:
        self.error = error

    def backlog(self, _node_id: int, _now: float) -> str:
        return "; batches wait"


def never(*_: object) -> NoReturn:
    raise ConnectionRefusedError(111, "Connection refused")


def test_connections_count_for_a_session_until_it_is_closed() -> None:
    client = ProducerClient(config(bootstrap_servers="127.0.0.1:1"), connect=never)
    session = ProducerSession(client)
    meters = session.reporting.builder.recorder.brokers
    assert client.network.metrics.meters is meters
    session.close()
    assert client.network.metrics.meters is not meters
    assert client.network.outages.backlog(1, 0.0) == ""
    client.close()


def test_idle_client_does_not_report_batches_of_the_last_task() -> None:
    client, loop = Client(config(bootstrap_servers="127.0.0.1:1"), connect=never), BlockedLoop()
    loop.released.set()
    client.attach(loop)
    assert client.network.outages.backlog(1, 0.0) == "; batches wait"
    client.detach()
    assert client.network.outages.backlog(1, 0.0) == ""
    client.close()


def test_failing_statistics_do_not_fail_close(caplog: pytest.LogCaptureFixture) -> None:
    client = ManualClient(config(statistics_interval_ms=1_000), ManualClock(start_ms=START_MS))
    executor = ThreadPoolExecutor(1)
    session = ProducerSession(client, executor=executor)
    client.network.metrics.meters.of(NODE).rtt = InUse()
    session.close()
    assert "could not be broadcast" in caplog.text
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(never)
    client.close()


def test_compressor_is_closed_after_other_errors() -> None:
    class Stubborn(ManualClient):
        def detach(self) -> NoReturn:
            raise OSError("no")

    client, executor = (
        Stubborn(config(), ManualClock(start_ms=START_MS)),
        ThreadPoolExecutor(1),
    )
    session = ProducerSession(client, executor=executor)
    with pytest.raises(OSError, match="no"):
        session.close()
    with pytest.raises(RuntimeError):
        executor.submit(never)
    client.close()


def test_client_is_closed_only_after_its_thread_has_ended() -> None:
    client, loop = Client(config(bootstrap_servers="127.0.0.1:1"), connect=never), BlockedLoop()
    client.attach(loop)
    assert loop.entered.wait(SOON)
    closing = Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(THREAD_CHECK_S)
    client.check_thread(THREAD_CHECK_S)
    assert loop.error is None
    assert not client.is_dead
    loop.released.set()
    closing.join(SOON)
    assert client.is_dead
    client.check_thread(THREAD_CHECK_S)  # type: ignore[unreachable]
    assert loop.error is not None


def test_loop_does_not_run_after_detach_during_close() -> None:
    client, loop = Client(config(bootstrap_servers="127.0.0.1:1"), connect=never), BlockedLoop()
    client.attach(loop)
    assert loop.entered.wait(SOON)
    running: list[bool] = []

    def detach() -> None:
        client.detach()
        running.append(loop.running)

    closing = Thread(target=client.close, daemon=True)
    closing.start()
    closing.join(THREAD_CHECK_S)
    detaching = Thread(target=detach, daemon=True)
    detaching.start()
    detaching.join(3 * THREAD_CHECK_S)
    loop.released.set()
    for thread in (closing, detaching):
        thread.join(SOON)
    assert running == [False]
    assert loop.error is None


def test_closed_client_accepts_no_loop() -> None:
    client, loop = Client(config(bootstrap_servers="127.0.0.1:1"), connect=never), BlockedLoop()
    loop.released.set()
    client.attach(loop)
    client.close()
    client.close()
    with pytest.raises(DeliveryError, match="sender thread"):
        client.attach(loop)
    client.detach()
    assert client.network.outages.backlog(1, 0.0) == ""
