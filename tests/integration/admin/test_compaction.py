"""A decision log that is compacted during writes and reads keeps its state."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.scope_state import Decided
from spark_kafka_sink.exactly_once.steps.scope_client import ScopeClient
from spark_kafka_sink.exactly_once.transactional_id import Scope, ScopeKind, driver_transactional_id
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.logs.appender import TransactionalAppender
from spark_kafka_sink.kafka.logs.log_reader import LogRead, LogReader
from tests.integration.admin.conftest import connected
from tests.support.decisions import decided
from tools.support.kafka_cluster import KafkaCluster
from tools.support.readers import by_confluent
from tools.support.transactions import open_transaction

LOG, LARGE_LOG = "decisions", "large-decisions"
ROLLING = {"segment.ms": "20", "min.cleanable.dirty.ratio": "0.001", "delete.retention.ms": "0"}
KEYS, ROUNDS = (b"a", b"b", b"c"), 6
State = dict[bytes | None, bytes | None]


def state(
    records: Iterable[tuple[bytes | None, bytes | None]], known: State | None = None
) -> State:
    """Return the latest value of each key."""
    return (known or {}) | dict(records)


def apply_records(read: LogRead, known: State | None = None) -> State:
    return state(((record.key, record.value) for record in read.records), known)


def fill(client: BlockingClient, start: int) -> State:
    """Write decisions of three scopes in turn with new epochs, and aborted ones between them."""
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


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    """Run a broker that compacts without delay."""
    with KafkaCluster(config={"log.cleaner.backoff.ms": "50"}) as cluster:
        yield cluster


def test_compaction_keeps_the_state(kafka: KafkaCluster) -> None:
    with connected(kafka) as client:
        TopicAdmin(client).create_compacted(LOG, None, ROLLING, client.deadline(60))
        reader = LogReader(client, LOG)
        expected = fill(client, 0)
        first = reader.read(None, client.deadline(60))
        assert apply_records(first) == expected
        more = fill(client, ROUNDS)
        deadline = time.monotonic() + 60
        written = len(KEYS) * ROUNDS * 2 * 2
        while len((complete := reader.read(None, client.deadline(60))).records) > written // 2:
            assert time.monotonic() < deadline
        second = reader.read(first.position, client.deadline(60))
        foreign = by_confluent(kafka.bootstrap_servers, LOG)
    assert apply_records(complete) == more
    assert apply_records(second, apply_records(first)) == more
    assert not second.restarted
    assert state((record.key, record.value) for record in foreign) == more
    assert complete.position.pending == ()


def finish(client: BlockingClient, kafka: KafkaCluster, scopes: Iterable[Scope]) -> None:
    """Decide and complete a batch with multiple records in each scope."""
    config = SinkConfig.parse(
        {
            "kafka.bootstrap.servers": kafka.bootstrap_servers,
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": "orders",
            "decisionLogTopic": LARGE_LOG,
        }
    )
    for scope in scopes:
        driver = ScopeClient(client, config, scope)
        record = decided(20, partitions=3_000)
        owner = driver.log.append(driver.fence(), record)
        assert isinstance(record.state, Decided)
        done = None if scope.kind is ScopeKind.RUN else DecisionRecord.done(record.state, 0)
        driver.log.append(owner, done)


def test_completed_batches_are_compacted_to_small_records(kafka: KafkaCluster) -> None:
    prefix, jobs = "orders", [Scope.batch("orders", str(number)) for number in range(10)]
    with connected(kafka) as client:
        configs = ROLLING | {"min.cleanable.dirty.ratio": "0.001"}
        TopicAdmin(client).create_compacted(LARGE_LOG, None, configs, client.deadline(60))
        finish(client, kafka, [*jobs, Scope.run(prefix), Scope.run(prefix), Scope.stream(prefix)])
        reader, deadline = LogReader(client, LARGE_LOG), time.monotonic() + 60
        while True:
            finish(client, kafka, [Scope.stream("roll")])  # the last segment is never compacted
            read = [
                record for record in reader.read(None, client.deadline(60)).records if record.key
            ]
            old = [record for record in read if not (record.key or b"").startswith(b"roll/")]
            if all(not (record.key and b"#" in record.key and record.value) for record in old):
                break
            assert time.monotonic() < deadline, Counter(record.key for record in old)
    left = {record.key: record.value for record in old if record.value is not None}
    assert left.keys() == {
        driver_transactional_id(scope).encode() for scope in [*jobs, Scope.stream(prefix)]
    }
    assert max(len(value) for value in left.values()) < 250
