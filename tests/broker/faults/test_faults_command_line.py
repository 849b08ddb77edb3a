"""All faults as command-line options: one broker with a topic for each fault."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.faults import Effect
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.broker.support.inspection import next_line
from tools.support.raw_client import RawClient, batch, new_producer_id, produce, produce_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DAY_MS = 86_400_000
FAULTS = {
    "error": "error=NOT_LEADER_OR_FOLLOWER:partition=0:next=2",
    "dice": "error=NOT_LEADER_OR_FOLLOWER:probability=0.5:seed=7",
    "lost": "lose-request:next=1",
    "no-response": "lose-response:next=1",
    "slow": "delay=300:next=1",
    "throttled": "throttle=70:next=1",
    "cut": "cut=6:next=1",
    "closed": "close:next=1",
    "moved": "move:next=1",
    "forgotten": "forget-producers:after=2:next=1",
    "lagging": "lag=60000:next=1",
    "hanging": "pause=1:next=1",
    "dead": "stop=2:next=1",
    "revived": "start=2:next=1",
    "jumped": f"clock=-{DAY_MS}:next=1",
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, "-m", "spark_kafka_sink.cli.main", "broker", "--port", "0"]
    command += ["--nodes", "2", "--session-timeout-ms", "600000"]
    for topic, fault in FAULTS.items():
        command += ["--topic", f"{topic}:1:2", "--fault", f"produce:topic={topic}:{fault}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield next_line(process).split()[-1]
        finally:
            process.kill()


@pytest.fixture
def leader(address: str) -> Iterator[Callable[[str], RawClient]]:
    """Yield a function that returns a client of a topic's leader; close the clients afterwards."""
    clients = []

    def connect(topic: str) -> RawClient:
        with RawClient(address) as any_node:
            found = any_node.call(ApiKey.METADATA, 9, topics=[{"name": topic}])
        leads = found.topics[0].partitions[0].leader_id
        (node,) = (one for one in found.brokers if one.node_id == leads)
        clients.append(RawClient(f"{node.host}:{node.port}"))
        return clients[-1]

    yield connect
    for client in clients:
        client.socket.close()


def code(client: RawClient, topic: str, records: bytes | bytearray | None = None) -> ErrorCode:
    result: ErrorCode = produce(client, topic, records or batch(1)).error_code
    return result


def next_offset(client: RawClient, topic: str) -> int:
    result: int = produce(client, topic, batch(1)).base_offset
    return result


def send(client: RawClient, topic: str) -> None:
    client.send(ApiKey.PRODUCE, 9, **produce_values(topic, batch(1)))


def gets_no_response(client: RawClient) -> bool:
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    return True


def test_all_kinds_are_covered() -> None:
    named = [text.partition(":")[0].partition("=")[0] for text in FAULTS.values()]
    assert set(named) == {str(effect) for effect in Effect}


def test_partition_errors(leader: Callable[[str], RawClient]) -> None:
    client = leader("error")
    codes = [code(client, "error") for _ in range(3)]
    wrong = ErrorCode.not_leader_or_follower
    assert codes == [wrong, wrong, ErrorCode.none]


def test_errors_by_probability(leader: Callable[[str], RawClient]) -> None:
    client = leader("dice")
    codes = {code(client, "dice") for _ in range(40)}
    assert codes == {ErrorCode.none, ErrorCode.not_leader_or_follower}


@pytest.mark.parametrize(("topic", "written"), [("lost", 0), ("no-response", 1)])
def test_lost_request_and_lost_response(
    leader: Callable[[str], RawClient], topic: str, written: int
) -> None:
    client = leader(topic)
    send(client, topic)
    assert gets_no_response(client)
    assert next_offset(leader(topic), topic) == written


def test_delay(leader: Callable[[str], RawClient]) -> None:
    client, started = leader("slow"), time.monotonic()
    assert code(client, "slow") is ErrorCode.none
    assert time.monotonic() - started > 0.29


def test_throttle_time(leader: Callable[[str], RawClient]) -> None:
    response = leader("throttled").call(
        ApiKey.PRODUCE, 9, **produce_values("throttled", bytes(batch(1)))
    )
    assert response.throttle_time.total_seconds() == 0.07


def test_truncated_frame(leader: Callable[[str], RawClient]) -> None:
    client = leader("cut")
    send(client, "cut")
    assert len(client._exactly(6)) == 6
    assert client.closed()


def test_closed_connection(leader: Callable[[str], RawClient]) -> None:
    client = leader("closed")
    send(client, "closed")
    assert client.closed()
    assert next_offset(leader("closed"), "closed") == 0


def test_moved_leader(leader: Callable[[str], RawClient]) -> None:
    client = leader("moved")
    assert code(client, "moved") is ErrorCode.not_leader_or_follower
    other = leader("moved")
    assert other.socket.getpeername() != client.socket.getpeername()
    assert code(other, "moved") is ErrorCode.none


def test_lost_producer_state(leader: Callable[[str], RawClient]) -> None:
    client = leader("forgotten")
    records = batch(1, producer=(new_producer_id(client), 0, 0))
    offsets = [produce(client, "forgotten", records).base_offset for _ in range(3)]
    assert offsets == [0, 0, 1]


def running_nodes(leader: Callable[[str], RawClient]) -> int:
    """Return the number of running nodes, according to the node that does not stop."""
    return len(leader("error").call(ApiKey.METADATA, 9, topics=[]).brokers)


class TestClusterFaults:
    """Faults that affect the whole cluster, so they run last and in this order."""

    def test_lagging_followers(self, leader: Callable[[str], RawClient]) -> None:
        client = leader("lagging")
        send(client, "lagging")
        assert gets_no_response(client)

    def test_node_stops_and_restarts(self, leader: Callable[[str], RawClient]) -> None:
        send(leader("dead"), "dead")
        deadline = time.monotonic() + 60
        while running_nodes(leader) == 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert running_nodes(leader) == 1
        send(leader("revived"), "revived")
        while running_nodes(leader) == 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert running_nodes(leader) == 2

    def test_clock_jump(self, leader: Callable[[str], RawClient]) -> None:
        assert code(leader("jumped"), "jumped") is ErrorCode.invalid_timestamp

    def test_hanging_node(self, address: str, leader: Callable[[str], RawClient]) -> None:
        send(leader("hanging"), "hanging")
        with RawClient(address) as paused:
            paused.send(ApiKey.METADATA, 9, topics=[])
            assert gets_no_response(paused)
