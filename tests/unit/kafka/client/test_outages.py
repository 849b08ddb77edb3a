"""Log lines during broker outages: enough for a diagnosis, without flooding."""

import logging
import re
from dataclasses import replace
from random import Random

import pytest

from spark_kafka_sink.kafka.client.cluster_snapshot import Node
from spark_kafka_sink.kafka.client.network_client import NetworkClient
from spark_kafka_sink.kafka.client.outages import LOG_INTERVAL_S, MAX_LINES, Outages
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.clock import ManualClock
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.offline import config
from tests.support.harness.world import world

BROKER = "Kafka broker 1 at 127.0.0.1:40001"


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING)
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    messages = [record.getMessage() for record in log.records]
    log.clear()
    return messages


def test_lost_request_and_recovery_are_logged(log: pytest.LogCaptureFixture) -> None:
    with world() as sim:
        sim.fault(Fault(lose=True))
        sim.deliver_batches(2)
        lost, back = lines(log)
    assert lost.startswith(
        f"{BROKER}: the connection was lost with 1 request in flight, the oldest "
    )
    assert "the broker closed the connection; retrying in 0." in lost
    assert "waiting for it: 6 records in 2 batches, for up to 0." in lost
    assert "fail after delivery.timeout.ms = 120000" in lost
    assert re.fullmatch(rf"{BROKER}: reconnected after \d+\.\d s and 1 failure", back)


def test_permanent_outage_is_logged_rarely(log: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(topics={"t": 1})
    minutes, tick = 3, 0.1
    with world(cluster, delivery_timeout_ms=900_000) as sim:
        sim.deliver_batches(1)
        cluster.still_listed.add(1)
        cluster.stop(1)
        sim.send_batches(4)
        sim.steps(int(minutes * 60 / tick), tick)
        logged = lines(log)
        about = [line for line in logged if line.startswith(BROKER)]
        assert 2 <= len(about) <= minutes * 60 / LOG_INTERVAL_S + 1
        assert len(logged) - len(about) <= minutes * 60 / LOG_INTERVAL_S + 1
        assert all("Connection refused" in line for line in about[1:])
        assert re.search(r"no connection for 3\d\.\d s, \d+ failures: Connection", about[1])
        assert "waiting for it: 12 records in 4 batches, for up to 3" in about[1]
        cluster.alive.add(1)
        sim.finish()
        (back,) = [line for line in lines(log) if line.startswith(BROKER)]
        assert re.fullmatch(rf"{BROKER}: reconnected after 1[78]\d\.\d s and \d+ failures", back)


def test_flapping_broker_does_not_flood_the_log(log: pytest.LogCaptureFixture) -> None:
    with world(delivery_timeout_ms=900_000, retries=100_000) as sim:
        sim.fault(*[Fault(lose=True)] * 200)
        sim.send_batches(4)
        begun = sim.clock.monotonic()
        sim.finish(tick=0.05)
        seconds = sim.clock.monotonic() - begun
    assert seconds > 2 * LOG_INTERVAL_S
    assert 2 <= len(lines(log)) <= 2 * (seconds / LOG_INTERVAL_S + 1)


def test_broker_and_bootstrap_server_at_one_address_are_logged_separately(
    log: pytest.LogCaptureFixture,
) -> None:
    with world(bootstrap_servers="127.0.0.1:40001", delivery_timeout_ms=900_000) as sim:
        sim.deliver_batches(1)
        sim.cluster.still_listed.add(1)
        sim.cluster.stop(1)
        sim.steps(20, 0.1)  # no batch waits for the broker
        sim.client.metadata.request_refresh()
        sim.steps(20, 0.1)
        sim.send_batches(1)
        sim.steps(20, 0.1)
        output = lines(log)
    assert any(
        line.startswith("Kafka bootstrap server 127.0.0.1:40001: no conn") for line in output
    )
    assert any(line.startswith(f"{BROKER}: no connection") for line in output)


@pytest.mark.parametrize(
    ("delivery_timeout_ms", "ends"),
    [(120_000, "max.block.ms = 60000"), (40_000, "delivery.timeout.ms = 40000")],
)
def test_metadata_waits_for_every_bootstrap_server(
    log: pytest.LogCaptureFixture, delivery_timeout_ms: int, ends: str
) -> None:
    servers = "127.0.0.1:40000,127.0.0.1:40001"
    with world(
        FakeCluster(), bootstrap_servers=servers, delivery_timeout_ms=delivery_timeout_ms
    ) as sim:
        sim.cluster.stop(1)
        sim.send_batches(2, partition=None)
        sim.steps(20, 0.1)
        logged = lines(log)
    assert {line.split(":")[0] for line in logged} == {"Kafka bootstrap server 127.0.0.1"}
    assert len(logged) == 2
    assert all(
        "waiting for the metadata of their topics: 6 records in 2 batches, for up to 0." in line
        and line.endswith(f"they fail after {ends}")
        for line in logged
    )


def test_leaderless_partition_does_not_wait_for_bootstrap_servers(
    log: pytest.LogCaptureFixture,
) -> None:
    with world(delivery_timeout_ms=900_000) as sim:
        sim.deliver_batches(1)
        sim.cluster.stop(1)
        metadata = sim.client.metadata
        metadata.cluster = replace(metadata.cluster, nodes={})
        sim.send_batches(2)
        metadata.request_refresh()
        sim.steps(20, 0.1)
        logged = lines(log)
    about = [line for line in logged if line.startswith("Kafka bootstrap server")]
    assert about
    assert not any("wait for" in line for line in about)


def test_outage_of_the_whole_cluster_does_not_flood_the_log(log: pytest.LogCaptureFixture) -> None:
    cluster, clock, count = FakeCluster(nodes=50), ManualClock(5.0), 50
    cluster.alive.clear()
    network = NetworkClient(
        config(bootstrap_servers="127.0.0.1:40000"), random=Random(1), connect=cluster.connect
    )
    nodes = [Node(number, "127.0.0.1", 40_000 + number) for number in range(1, count + 1)]
    until = clock.monotonic() + 3 * LOG_INTERVAL_S
    while clock.monotonic() < until:
        for node in nodes:
            network.connect(node, clock.monotonic())
        network.wakeup()
        network.poll(0.0, clock.monotonic)
        clock.advance(0.5)
    logged = lines(log)
    assert 3 * MAX_LINES <= len(logged) <= 4 * MAX_LINES
    assert any(re.search(r"\([\d,]+ lines about other outages omitted\)$", line) for line in logged)
    network.close(clock.monotonic())


def test_unresponsive_broker_is_logged_before_the_timeout(log: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(topics={"t": 1})
    with world(cluster, request_timeout_ms=25_000, delivery_timeout_ms=900_000) as sim:
        sim.deliver_batches(1)
        sim.fault(Fault(hold=True))
        sim.send_batches(3)
        sim.steps(95, 0.1)
        assert lines(log) == []
        sim.steps(20, 0.1)
        (silent,) = lines(log)
        assert silent.startswith(f"{BROKER}: no response for 10.")
        assert "3 requests in flight; the connection will be closed" in silent
        assert "request.timeout.ms = 25000; waiting for it: 9 records in 3 batches" in silent
        cluster.release()
        sim.finish()
        assert lines(log) == [f"{BROKER}: responding again"]
        sim.fault(Fault(hold=True))
        sim.send_batches(1)
        sim.steps(270, 0.1)
        assert "no response within request.timeout.ms" in "".join(lines(log))


def test_leaderless_partitions_are_logged(log: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster(nodes=2, topics={"t": 40})
    with world(cluster, delivery_timeout_ms=900_000) as sim:
        cluster.stop(2)
        sim.send_batches(1, partition=1)
        sim.steps(600, 0.1)
        logged = [line for line in lines(log) if line.startswith("topic t: ")]
        assert 2 <= len(logged) <= 3
        assert re.match(
            r"topic t: 20 of 40 partitions .* have had no leader for [5-9]\.\d s", logged[0]
        )
        assert "(1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 10 more)" in logged[0]
        cluster.alive.add(2)
        sim.finish()
        assert any(line.startswith("topic t: all partitions have a leader") for line in lines(log))


def test_unknown_leader_is_requested_with_growing_delays() -> None:
    """Frequently at first, as an election needs it, and then less often."""
    cluster = FakeCluster(nodes=2, topics={"t": 2})
    with world(cluster, delivery_timeout_ms=900_000) as sim:
        cluster.unlisted_leaders.add(2)
        sim.client.metadata.request_refresh()
        sim.send_batches(1, partition=1)
        sim.steps(100, 0.02)
        before = cluster.count(ApiKey.METADATA)
        sim.steps(3_000, 0.02)
        requests = cluster.count(ApiKey.METADATA) - before
        assert 60 <= requests <= 200
        cluster.unlisted_leaders.clear()
        sim.finish()


def test_outages_are_logged_by_the_clock() -> None:
    outages = Outages()
    assert outages.observe("a", 0.0, min_s=2.0) is None
    assert outages.end("a") is None
    assert outages.observe("a", 1.0, min_s=2.0) is None
    assert outages.observe("a", 3.0, min_s=2.0) is not None
    assert outages.observe("a", 3.0 + LOG_INTERVAL_S - 0.1) is None
    assert outages.observe("a", 3.0 + LOG_INTERVAL_S) is not None
    ended = outages.end("a")
    assert ended is not None
    assert (ended.since, ended.times) == (1.0, 4)
    assert outages.observe("a", 5.0 + LOG_INTERVAL_S) is None
    assert outages.end("a") is None


def test_throttling_is_logged_instead_of_a_missing_response(log: pytest.LogCaptureFixture) -> None:
    with world(client_id="etl", max_in_flight_requests_per_connection=1) as sim:
        sim.deliver_batches(1)
        sim.fault(*[Fault(throttle_ms=40_000)] * 3)
        sim.send_batches(4)
        sim.finish(0.25)
        logged = lines(log)
    assert logged == [f"{BROKER}: a quota throttles client.id etl or its user: pause of 40.0 s"] * 2


def test_single_throttling_is_not_logged(log: pytest.LogCaptureFixture) -> None:
    with world(FakeCluster(topics={"t": 1})) as sim:
        for _ in range(2):
            sim.fault(Fault(throttle_ms=9_000))
            sim.send_batches(2)
            sim.finish(0.25)
            sim.steps(100, 0.25)
        assert lines(log) == []


def test_request_in_a_throttled_channel_does_not_time_out() -> None:
    """KIP-219: the broker reads requests sent before the throttling when it has ended."""
    cluster = FakeCluster(topics={"t": 4})
    with world(cluster, request_timeout_ms=10_000, max_request_size=1_000) as sim:
        sim.deliver_batches(1)
        sim.fault(Fault(throttle_ms=60_000), Fault(hold=True))
        for partition in range(1, 3):
            sim.send_batches(1, partition)
        sim.steps(260, 0.25)
        assert len(cluster.seen) == 3
        cluster.release()
        sim.finish()
        assert sim.report().retries == 0
