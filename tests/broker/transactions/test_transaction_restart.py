"""Transactions across broker restarts and without a leader; `player` describes the steps."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.storage.data_dir import JOURNAL
from spark_kafka_sink.broker.storage.journal import TRANSACTION
from tests.broker.support.inspection import topic_in
from tests.support.transactions.player import Player, play
from tests.support.waiting import wait_until_equal
from tools.support.raw_client import RawClient, batch, fetch, offsets, produce

DAY_MS = 86_400_000


@pytest.fixture
def start_broker(tmp_path: Path) -> Callable[..., EmbeddedBroker]:
    """Return a function that starts a broker on the same folder."""

    def start(**options: Any) -> EmbeddedBroker:
        return EmbeddedBroker(data_dir=str(tmp_path), topics={"t": 2}, **options)

    return start


def test_producer_continues_after_its_records_are_deleted(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    """Only the marker of the last transaction remains, which has no sequence number."""
    configs = {"t": {"internal.segment.bytes": "150"}}
    with start_broker(topic_configs=configs) as kafka:
        steps = "init\nadd 0\nwrite 0 +3 v=11\nend commit 0 v=4"
        responses, player = play(kafka.bootstrap_servers, steps)
        assert responses == ["0 P0:0", "0", "0 @0", "0"]
        kafka.run(
            lambda cluster: cluster.topics.store.delete_records(topic_in(cluster).partitions[0], 3)
        )
    with start_broker() as kafka:
        steps = "add 0\nwrite 0 v=11\nwrite 0 v=11\nend commit 0 v=4"
        assert play(kafka.bootstrap_servers, steps, player)[0] == ["0", "0 @4", "0 @5", "0"]


def test_state_of_idle_producers_is_deleted(start_broker: Callable[..., EmbeddedBroker]) -> None:
    def state(kafka: EmbeddedBroker) -> tuple[set[int], int]:
        """Return the producers of t-0 and the number of stored epochs."""

        def read(cluster: Cluster) -> tuple[set[int], int]:
            entries = topic_in(cluster).partitions[0].producers.entries
            return set(entries), len(cluster.journal.all("offset_epoch"))

        return kafka.run(read)

    expiration = {"transactional_id_expiration_ms": 3 * DAY_MS}
    with start_broker(**expiration) as kafka, RawClient(kafka.bootstrap_servers) as client:
        play(kafka.bootstrap_servers, "init\nwrite 0\noffset 0 7\nend commit 0 v=4")
        for sequence in range(2):
            produce(client, "t", batch(1, producer=(5, 0, sequence), timestamp=0))
            kafka.jump_clock(DAY_MS)
            kafka.run(lambda cluster: cluster.tick())
            producers, epochs = state(kafka)
            assert 5 in producers
            assert epochs == 1
        kafka.jump_clock(DAY_MS)
        wait_until_equal(lambda: state(kafka), (set(), 0))
        assert produce(client, "t", batch(1, producer=(5, 0, 2))).base_offset == 4


def test_epochs_without_a_transactional_id_are_deleted_at_a_start(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    with start_broker() as kafka:
        play(kafka.bootstrap_servers, "init\nwrite 0\noffset 0 7\nend commit 0 v=4")
        used = kafka.run(lambda cluster: cluster.journal.all("offset_epoch"))
        kafka.run(lambda cluster: cluster.journal.put("offset_epoch", (77,), 3))
    with start_broker() as kafka:
        assert len(used) == 1
        assert kafka.run(lambda cluster: cluster.journal.all("offset_epoch")) == used


def test_partitions_of_a_request_are_saved_together(tmp_path: Path) -> None:
    """Every change of a transaction saves all its partitions."""
    every = ",".join(map(str, range(40)))
    with EmbeddedBroker(data_dir=str(tmp_path), topics={"t": 40}) as kafka:
        play(kafka.bootstrap_servers, f"init\nwrite 0 p={every}\nwrite 0 p={every}")
    lines = (tmp_path / JOURNAL).read_text(encoding="utf-8").splitlines()
    saved = [line for line in lines if line.startswith(f'["{TRANSACTION}"')]
    assert [line.count('"t"') for line in saved] == [0, 40]


def test_marker_without_records_fences_after_a_restart(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    with start_broker() as kafka:
        steps = "marker commit 987654321:3 coordinator=5\nproducers"
        responses, player = play(kafka.bootstrap_servers, steps)
        assert responses == ["0", "0 P0:3 -1 5 -1"]
    with start_broker() as kafka:
        steps = "producers\nmarker abort 2\nmarker abort 3 coordinator=4\nwrite 2 plain id=none"
        assert play(kafka.bootstrap_servers, steps, player)[0] == [
            "0 P0:3 -1 5 -1",
            "47",
            "52",
            "47 @-1",
        ]


def test_open_transaction_continues(start_broker: Callable[..., EmbeddedBroker]) -> None:
    with start_broker() as kafka:
        _, player = play(
            kafka.bootstrap_servers,
            "init\nwrite 0 +2\noffset 0 7\nwrite 0 p=1\nend commit 0\nwrite 1",
        )
    with start_broker() as kafka:
        responses, player = play(
            kafka.bootstrap_servers,
            "state\nread\nproducers\ncommitted\nwrite 1 +2\noffset 1 9\nread p=1",
            player,
        )
        assert responses == [
            "0 Ongoing P0:1 t0",
            "0 4/3 0,1,C2 aborted none",
            "0 P0:1 0 0 3",
            "0 7",
            "0 @4",
            "0",
            "0 2/2 0,C1 aborted none",
        ]
    with start_broker() as kafka:
        steps = "committed stable\nend abort 1\nend abort 1\ncommitted stable\nread\ninit"
        assert play(kafka.bootstrap_servers, steps, player)[0] == [
            "88 -1",
            "0 P0:2",
            "0 P0:2",
            "0 7",
            "0 7/7 0,1,C2,3,4,5,A6 aborted P0:3",
            "0 P0:3",
        ]
    with start_broker() as kafka:
        assert play(kafka.bootstrap_servers, "read\nwrite 2\nwrite 3", player)[0] == [
            "0 7/7 0,1,C2,3,4,5,A6 aborted P0:3",
            "47 @-1",
            "0 @7",
        ]


def test_pending_first_offset_of_a_group_is_unstable_after_a_restart(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    with start_broker() as kafka:
        _, player = play(kafka.bootstrap_servers, "init\nwrite 0\noffset 0 7")
    with start_broker() as kafka:
        steps = "committed stable\nend commit 0\ncommitted stable"
        assert play(kafka.bootstrap_servers, steps, player)[0] == ["88 -1", "0 P0:1", "0 7"]


def test_transaction_times_out_while_the_broker_is_down(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    with start_broker() as kafka:
        _, player = play(kafka.bootstrap_servers, "init timeout=200\nwrite 0")
    time.sleep(0.3)  # longer than the transaction's timeout
    with start_broker() as kafka:
        responses, _ = play(
            kafka.bootstrap_servers, "until CompleteAbort\nread\nend commit 0", player
        )
        assert responses == ["CompleteAbort", "0 2/2 0,A1 aborted P0:0", "48 none:-1"]


def test_markers_wait_for_a_leader() -> None:
    with EmbeddedBroker(topics={"t": 2}, nodes=2) as kafka:
        where = kafka.run(lambda cluster: cluster.coordinator("id-t").id)
        leaders = kafka.run(lambda c: [p.leader for p in topic_in(c).partitions])
        bootstrap = kafka.bootstrap_servers.split(",")[where - 1]
        lost = next(index for index, leader in enumerate(leaders) if leader != where)
        with RawClient(bootstrap) as client:
            player = Player(client, "t")
            player.play(f"init\nadd 0 p=0,1\nwrite 0 v=11 p={1 - lost}")
            other = leaders[lost]
            kafka.run(lambda cluster: cluster.node_control.stop(other))
            player.settle = lambda: None  # type: ignore[method-assign]
            assert player.step("end commit 0") == "0 P0:1"
            assert player.step("state") == "0 PrepareCommit P0:1 t0,t1"
            assert player.step("end commit 0") == "51 none:-1"
            assert player.step("init") == "51 none:-1"
            assert player.step(f"read p={1 - lost}") == "0 2/2 0,C1 aborted none"
            kafka.run(lambda cluster: cluster.node_control.start(other))
            assert player.step("until CompleteCommit") == "CompleteCommit"
            assert player.step("init") == "0 P0:2"
            ends = kafka.end_offsets("t")
    assert ends[lost] == 1


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_marker_lost_with_its_leader_is_rewritten(end: str) -> None:
    """Otherwise the transaction would stay open in the partition undetected."""
    with EmbeddedBroker(topics={"t": 2}, nodes=2, replication_factor=2) as kafka:
        where = kafka.run(lambda cluster: cluster.coordinator("id-t").id)
        leaders = kafka.run(lambda c: [p.leader for p in topic_in(c).partitions])
        lost = next(index for index, leader in enumerate(leaders) if leader != where)
        servers = kafka.bootstrap_servers.split(",")
        with RawClient(servers[where - 1]) as client, RawClient(servers[2 - where]) as other:
            player, writer = Player(client, "t"), Player(other, "t")
            player.play(f"init\nadd 0 p={lost}")
            writer.producers = player.producers
            assert writer.step(f"write 0 p={lost} v=11") == "0 @0"
            player.settle = lambda: None  # type: ignore[method-assign]
            kafka.set_follower_lag(60_000)
            assert player.step(f"end {end} 0") == "0 P0:1"
            assert player.step("init") == "51 none:-1"
            kafka.stop_node(leaders[lost])
            kafka.set_follower_lag(0)
            kafka.start_node(leaders[lost])
            assert player.step(f"until Complete{end.title()}") == f"Complete{end.title()}"
            log = {"commit": "2/2 0,C1 aborted none", "abort": "2/2 0,A1 aborted P0:0"}[end]
            assert player.step(f"read p={lost}") == f"0 {log}"


def test_full_journal_does_not_block_other_work(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    """The broker cannot store the timeout of a transaction, but serves other requests."""

    def fill(cluster: Cluster) -> None:
        put = Mock(side_effect=OSError("No space left on device"))
        cluster.journal.put = put  # type: ignore[method-assign]

    with start_broker() as kafka, RawClient(kafka.bootstrap_servers) as raw:
        _, player = play(kafka.bootstrap_servers, "init timeout=60000\nwrite 0")
        kafka.run(fill)
        kafka.jump_clock(60_001)
        got = fetch(raw, "t", 1, max_wait=timedelta(seconds=1))
        assert (got.error_code, got.partition_index) == (0, 0)
        produce(raw, "t", batch(1))
        assert offsets(fetch(raw, "t", 1, max_wait=timedelta(seconds=9)).records) == [1]
        kafka.run(lambda cluster: cluster.journal.__dict__.pop("put"))
        assert play(kafka.bootstrap_servers, "until CompleteAbort", player)[0] == ["CompleteAbort"]
