"""A log that is compacted while it is written and read: what it says at the end is the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from spark_kafka_sink.admin.appender import TransactionalAppender
from spark_kafka_sink.admin.log_reader import LogReader
from spark_kafka_sink.admin.topic_admin import TopicAdmin
from spark_kafka_sink.admin.transaction_admin import TransactionAdmin
from tests.integration.admin.conftest import connected
from tests.integration.admin.opening import open_transaction
from tests.support.clients.readers import by_confluent
from tests.support.kafka.broker import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spark_kafka_sink.admin.blocking_client import BlockingClient
    from spark_kafka_sink.admin.log_reader import LogRead

LOG = "decisions"
ROLLING = {"segment.ms": "20", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0"}
KEYS, ROUNDS = (b"a", b"b", b"c"), 6
State = dict[bytes | None, bytes | None]


def state(
    records: Iterable[tuple[bytes | None, bytes | None]], known: State | None = None
) -> State:
    """The latest value of each key."""
    return (known or {}) | dict(records)


def folded(read: LogRead, known: State | None = None) -> State:
    return state(((record.key, record.value) for record in read.records), known)


def fill(client: BlockingClient, start: int) -> State:
    """Decisions of three scopes in turn, each fenced anew, and aborted ones between them."""
    admin, expected = TransactionAdmin(client), State()
    appender = TransactionalAppender(client, admin)
    for number in range(start, start + ROUNDS):
        for key in KEYS:
            name, value = key.decode(), b"%d" % number
            owner = admin.init_producer_id(name, 60_000, client.deadline(60))
            owner = appender.append(owner, LOG, [(key, b"decided")], client.deadline(60))
            appender.append(owner, LOG, [(key, value)], client.deadline(60))
            expected[key] = value
        lost = open_transaction(client, f"lost-{number}", LOG)
        admin.end([lost], commit=False, deadline=client.deadline(60))
    admin.fence([*(key.decode() for key in KEYS), lost.transactional_id], client.deadline(60))
    return expected


def test_a_compacted_log_says_the_same() -> None:
    with KafkaCluster(config={"log.cleaner.backoff.ms": "50"}) as kafka, connected(kafka) as client:
        TopicAdmin(client).create_compacted(LOG, None, ROLLING, client.deadline(60))
        reader = LogReader(client, LOG)
        expected = fill(client, 0)
        first = reader.read(None, client.deadline(60))
        assert folded(first) == expected
        more = fill(client, ROUNDS)
        deadline = time.monotonic() + 60
        written = len(KEYS) * ROUNDS * 2 * 2
        while len((whole := reader.read(None, client.deadline(60))).records) > written // 2:
            assert time.monotonic() < deadline
        second = reader.read(first.position, client.deadline(60))
        foreign = by_confluent(kafka.bootstrap_servers, LOG)
    assert folded(whole) == more
    assert folded(second, folded(first)) == more
    assert not second.restarted
    assert state((record.key, record.value) for record in foreign) == more
    assert whole.position.pending == ()
