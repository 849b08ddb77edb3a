"""Transactions with records and markers in a real Redis.

Offsets depend on the time there, so responses are compared without them.
"""

import contextlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from tests.broker.support.inspection import log_in, topic_in
from tests.broker.transactions.confluent import SECONDS, transactional, values
from tests.support.redis_server import RedisServer
from tests.support.transactions.player import Player, play
from tools.compat.scenarios.comparison import batches
from tools.support.raw_client import RawClient, batch, produce
from tools.support.waiting import poll


@pytest.fixture
def start_broker(redis_url: str) -> Callable[..., EmbeddedBroker]:
    """Return a function that starts a broker on the same Redis."""

    def start(**options: Any) -> EmbeddedBroker:
        return EmbeddedBroker(storage=redis_url, topics={"t": 4}, **options)

    return start


def play_without_offsets(
    kafka: EmbeddedBroker, steps: str, former: Player | None = None
) -> tuple[list[str], Player]:
    """Execute steps; return the responses without offsets, and the player."""
    responses, player = play(kafka.bootstrap_servers, steps, former)
    return [re.sub(r"@\d+", "@n", response) for response in responses], player


def count_fetched(kafka: EmbeddedBroker, *, committed: bool = True) -> int:
    """Return the number of records in a fetch of partition 0."""
    with RawClient(kafka.bootstrap_servers) as client:
        data = Player(client, "t").fetched(0, 0, committed=committed).records
    return sum(batch["count"] for batch in batches(bytes(data or b"")))


def test_commits_and_aborts(redis_kafka: EmbeddedBroker) -> None:
    sender = transactional(redis_kafka)
    for turn in range(4):
        sender.begin_transaction()
        for i in range(20):
            sender.produce("t", f"{turn}-{i}", partition=i % 4)
        sender.flush(SECONDS)
        (sender.commit_transaction if turn % 2 else sender.abort_transaction)(SECONDS)
    expected = sorted(f"{turn}-{i}" for turn in (1, 3) for i in range(20))
    assert values(redis_kafka, "t") == expected
    assert len(values(redis_kafka, "t", "read_uncommitted")) == 80


@pytest.mark.parametrize("version", [0, 1, 2])
def test_completed_transactions_after_restart(
    start_broker: Callable[..., EmbeddedBroker], version: int
) -> None:
    with start_broker(transaction_version=version) as kafka:
        sender = transactional(kafka)
        for value in ("kept", "dropped"):
            sender.begin_transaction()
            sender.produce("t", value, partition=0)
            sender.flush(SECONDS)
            (sender.commit_transaction if value == "kept" else sender.abort_transaction)(SECONDS)
        ends = kafka.end_offsets("t")
    with start_broker(transaction_version=version) as kafka:
        assert kafka.end_offsets("t") == ends
        assert values(kafka, "t") == ["kept"]
        assert values(kafka, "t", "read_uncommitted") == ["dropped", "kept"]
        again = transactional(kafka)
        again.begin_transaction()
        again.produce("t", "later", partition=0)
        again.commit_transaction(SECONDS)
        assert values(kafka, "t") == ["kept", "later"]


def test_open_transaction_continues_after_restart(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    with start_broker() as kafka:
        responses, player = play_without_offsets(kafka, "init\nwrite 0 +2\noffset 0 7\nwrite 0 p=1")
        assert responses == ["0 P0:0", "0 @n", "0", "0 @n"]
    with start_broker() as kafka:
        assert count_fetched(kafka) == 0
        assert count_fetched(kafka, committed=False) == 2
        steps = "state\nwrite 0 +2\nend commit 0\nend commit 0\ncommitted"
        assert play_without_offsets(kafka, steps, player)[0] == [
            "0 Ongoing P0:0 consumer_offsets0,t0,t1",
            "0 @n",
            "0 P0:1",
            "0 P0:1",
            "0 7",
        ]
        assert len(values(kafka, "t")) == 5
    with start_broker() as kafka:
        assert len(values(kafka, "t")) == 5
        assert play_without_offsets(kafka, "write 0\nwrite 1\nend abort 1", player)[0] == [
            f"{ErrorCode.invalid_producer_epoch.value} @-1",
            "0 @n",
            "0 P0:2",
        ]
        assert len(values(kafka, "t")) == 5


def stable_offset(kafka: EmbeddedBroker) -> int:
    """Return the last stable offset of partition 0."""
    with RawClient(kafka.bootstrap_servers) as client:
        error, offset = Player(client, "t").step("latest committed").split()
    assert error == "0"
    return int(offset)


def test_committed_readers_reach_the_end_during_a_transaction(
    start_broker: Callable[..., EmbeddedBroker],
) -> None:
    """The gap before the transaction's first batch is after the last stable offset."""
    with start_broker() as kafka:
        with RawClient(kafka.bootstrap_servers) as client:
            end = produce(client, "t", batch(3, value=b"old")).base_offset + 3
            kafka.jump_clock(10)  # a gap in the offsets, which contain the milliseconds
            _, player = play_without_offsets(kafka, "init\nwrite 0")
            kafka.jump_clock(10)
            later = produce(client, "t", batch(1)).base_offset
        assert stable_offset(kafka) == end
        assert values(kafka, "t") == ["old"] * 3
    with start_broker() as kafka:
        assert stable_offset(kafka) == end
        kafka.run(lambda cluster: topic_in(cluster).partitions[0].truncate(later))
        assert stable_offset(kafka) == end
        kafka.run(lambda cluster: log_in(cluster).delete_records(end - 1))
        assert stable_offset(kafka) == end
        assert play_without_offsets(kafka, "end abort 0", player)[0] == ["0 P0:1"]
        assert stable_offset(kafka) == kafka.end_offsets("t")[0]


@pytest.mark.parametrize("outcomes", ["abort", "commit", "abort commit", "commit abort"])
@pytest.mark.parametrize("version", [0, 2])
def test_older_data_contains_an_open_transaction(
    own_redis: RedisServer, version: int, outcomes: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The transaction is open again; it must not end with the outcome of a later transaction."""
    options: dict[str, Any] = {"storage": own_redis.url(), "transaction_version": version}
    with EmbeddedBroker(topics={"t": 1}, **options) as kafka:
        sender = transactional(kafka)
        for outcome in outcomes.split():
            sender.begin_transaction()
            sender.produce("t", outcome)
            sender.flush(SECONDS)
            if outcomes.startswith(outcome):
                own_redis.client.save()
            (sender.commit_transaction if outcome == "commit" else sender.abort_transaction)(
                SECONDS
            )
        own_redis.stop()
        own_redis.start()
        with RawClient(kafka.bootstrap_servers) as raw:
            for _ in range(2):  # the first request can find a closed connection
                answer = produce(raw, "t", batch(1))
                assert answer.error_code is ErrorCode.kafka_storage_error
        assert "a transaction of" in caplog.text
    with EmbeddedBroker(**options) as kafka:
        again = transactional(kafka)  # aborts the open transaction
        again.begin_transaction()
        again.produce("t", "later")
        again.commit_transaction(SECONDS)
        assert values(kafka, "t") == ["later"]


def retried(kafka: EmbeddedBroker, step: str, player: Player) -> str:
    """Return the response to a step; retry after a pause while Redis is unavailable."""

    def response() -> str:
        with contextlib.suppress(ConnectionError):
            return play_without_offsets(kafka, step, player)[0][0]
        return ""

    return poll(response, SECONDS)


def test_end_of_transaction_is_retried_without_redis(own_redis: RedisServer) -> None:
    """The connection is closed, as after a coordinator crash; the retry succeeds."""
    url = own_redis.url(timeout_ms=300)
    with EmbeddedBroker(storage=url, topics={"t": 4}) as kafka:
        _, player = play_without_offsets(kafka, "init\nwrite 0")
        own_redis.pause()
        try:
            with pytest.raises(ConnectionError):
                play_without_offsets(kafka, "end commit 0", player)
        finally:
            own_redis.resume()
        responses = [retried(kafka, "end commit 0", player)]
        responses += play_without_offsets(kafka, "state\nwrite 1\nend commit 1", player)[0]
        assert responses == ["0 P0:1", "0 CompleteCommit P0:1 none", "0 @n", "0 P0:2"]
        assert len(values(kafka, "t")) == 2
    with EmbeddedBroker(storage=url) as kafka:
        assert len(values(kafka, "t")) == 2
