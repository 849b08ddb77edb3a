"""Writes to brokers of releases before 4.0."""

from collections.abc import Sequence

import pytest
from confluent_kafka import TopicPartition

from spark_kafka_sink.common.errors import DeliveryError, UnknownTopicError
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import numbered, produce, rows, session
from tests.support.readers import await_count, by_kafka_python
from tests.support.waiting import wait_until
from tools.support.kafka_cluster import ZooKeeperCluster
from tools.support.readers import ForeignRecord, Headers, by_confluent, in_order, numbers_in

ROWS = 300
FIRST_MS = 1_700_000_000_000
KEYS = (None, b"", b"key", "Schl\u00fcssel".encode(), b"k" * 300)
HEADERS: tuple[Headers, ...] = (
    (),
    (("trace", b"abc"),),
    (("a", b"1"), ("a", b""), ("nothing", None)),
)
OLD_FORMAT = {"message.format.version": "0.10.2"}


def records(topic: str, partition: int) -> list[ForeignRecord]:
    """Return records with and without keys, headers and timestamps, empty values and tombstones."""
    return [
        ForeignRecord(
            topic=topic,
            partition=partition,
            offset=number,
            timestamp=FIRST_MS + number * 37 % 1_000,
            key=KEYS[number % len(KEYS)],
            value=None if number % 7 == 0 else b"value %d " % number * (number % 60),
            headers=HEADERS[number % len(HEADERS)],
        )
        for number in range(ROWS)
    ]


def write(kafka: ZooKeeperCluster, written: Sequence[ForeignRecord], **options: object) -> None:
    """Write records of one topic in a new session."""
    chunk = rows(
        written[0].topic,
        [record.value for record in written],
        keys=[record.key for record in written],
        headers=[record.headers for record in written],
        timestamps=[record.timestamp for record in written],
        partitions=[record.partition for record in written],
    )
    report = produce(kafka.bootstrap_servers, chunk, batch_size=20_000, **options)
    assert sum(part.persisted for part in report.partitions) == len(written)


def test_every_codec_is_read_by_another_client(
    old_kafka: ZooKeeperCluster, unique_topic: str
) -> None:
    old_kafka.admin.create_topic(unique_topic, len(Codec), 2)
    expected = []
    for codec in Codec:
        batch = records(unique_topic, codec.value)
        write(old_kafka, batch, compression_type=codec.name.lower())
        expected += batch
    for reader in (by_confluent, by_kafka_python):
        assert reader(old_kafka.bootstrap_servers, unique_topic) == in_order(expected)


@pytest.mark.parametrize(
    "options",
    [
        {"acks": "0", "enable_idempotence": "false"},
        {"acks": "1", "enable_idempotence": "false"},
        {"acks": "all", "enable_idempotence": "false"},
        {"enable_gapless_guarantee": "true"},
        {"max_in_flight_requests_per_connection": "1"},
    ],
    ids=lambda options: ",".join(f"{name}={value}" for name, value in options.items()),
)
def test_every_kind_of_acknowledgement(
    old_kafka: ZooKeeperCluster, unique_topic: str, options: dict[str, str]
) -> None:
    old_kafka.admin.create_topic(unique_topic, 3, 2)
    # A leader that is not ready yet drops requests without acknowledgements.
    produce(old_kafka.bootstrap_servers, numbered(unique_topic, 0, 3, 3))
    produce(old_kafka.bootstrap_servers, numbered(unique_topic, 3, 1_997, 3), **options)
    await_count(old_kafka.bootstrap_servers, unique_topic, 2_000)
    assert numbers_in(old_kafka.bootstrap_servers, unique_topic) == list(range(2_000))


@pytest.mark.parametrize(
    ("config", "idempotence"),
    [
        ({"compression.type": "gzip"}, True),
        ({"message.timestamp.type": "LogAppendTime"}, True),
        (OLD_FORMAT, False),
    ],
    ids=["gzip", "LogAppendTime", "format 0.10.2"],
)
def test_topics_that_convert_batches(
    old_kafka: ZooKeeperCluster, unique_topic: str, config: dict[str, str], idempotence: bool
) -> None:
    """The broker converts batches to another codec or an older format."""
    old_kafka.admin.create_topic(unique_topic, 1, 2, config)
    options = {"compression_type": "lz4", "enable_idempotence": str(idempotence).lower()}
    with session(old_kafka.bootstrap_servers, **options) as producer:
        for start in range(0, 3_000, 500):
            producer.append(numbered(unique_topic, start, 500, 1))
            producer.flush()
    assert numbers_in(old_kafka.bootstrap_servers, unique_topic) == list(range(3_000))


def test_message_format_without_producer_ids(
    old_kafka: ZooKeeperCluster, unique_topic: str
) -> None:
    """Brokers since 3.0 do not support such a format."""
    old_kafka.admin.create_topic(unique_topic, 1, 2, OLD_FORMAT)
    chunk = numbered(unique_topic, 0, 10, 1)
    if old_kafka.release.startswith("3."):
        produce(old_kafka.bootstrap_servers, chunk)
        return
    with pytest.raises(DeliveryError) as caught:
        produce(old_kafka.bootstrap_servers, chunk)
    assert caught.value.kafka_error == "UNSUPPORTED_FOR_MESSAGE_FORMAT"
    assert "enable.idempotence=false" in str(caught.value.hint)


def test_topic_is_created_by_a_write(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    produce(old_kafka.bootstrap_servers, rows(unique_topic, [b"1", b"2"], keys=[b"a", None]))
    assert numbers_in(old_kafka.bootstrap_servers, unique_topic) == [1, 2]


def test_topic_is_not_created_if_disabled(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    options = {"allow_auto_create_topics": "false", "max_block_ms": "1500"}
    with pytest.raises(UnknownTopicError) as caught:
        produce(old_kafka.bootstrap_servers, rows(unique_topic, [b"1"]), **options)
    assert caught.value.topic == unique_topic
    assert unique_topic not in old_kafka.admin.client().list_topics(timeout=60).topics


def test_oversized_batches_are_split(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    old_kafka.admin.create_topic(unique_topic, 1, 2, {"max.message.bytes": "5000"})
    values = [b"%06d" % number * 100 for number in range(200)]
    report = produce(old_kafka.bootstrap_servers, rows(unique_topic, values), batch_size=60_000)
    stored = by_confluent(old_kafka.bootstrap_servers, unique_topic)
    assert [record.value for record in stored] == values
    assert report.splits > 0


def test_oversized_record_fails_the_write(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    old_kafka.admin.create_topic(unique_topic, 1, 2, {"max.message.bytes": "5000"})
    with pytest.raises(DeliveryError) as caught:
        produce(old_kafka.bootstrap_servers, rows(unique_topic, [b"small", b"x" * 9_000]))
    assert caught.value.kafka_error == "MESSAGE_TOO_LARGE"
    assert (caught.value.topic, caught.value.partition) == (unique_topic, 0)


def test_record_without_key_in_compacted_topic(
    old_kafka: ZooKeeperCluster, unique_topic: str
) -> None:
    """Brokers before 2.4 report it as corrupt, which is retried until the timeout (KIP-467)."""
    old_kafka.admin.create_topic(unique_topic, 1, 2, {"cleanup.policy": "compact"})
    chunk = rows(unique_topic, [b"1", b"2"], keys=[b"a", None])
    options = {"linger_ms": 0, "request_timeout_ms": 1_000, "delivery_timeout_ms": 2_000}
    with pytest.raises(DeliveryError) as caught:
        produce(old_kafka.bootstrap_servers, chunk, **options)
    if old_kafka.release.startswith("2.1"):
        assert "CORRUPT_MESSAGE" in str(caught.value)
        assert "null key" in str(caught.value.hint)
    else:
        assert caught.value.kafka_error == "INVALID_RECORD"
        assert "record 1" in str(caught.value)


def test_producer_whose_records_were_deleted(
    old_kafka: ZooKeeperCluster, unique_topic: str
) -> None:
    """Brokers before 2.5 lose its state with its last record and require a new epoch (KIP-360)."""
    old_kafka.admin.create_topic(unique_topic, 1, 2)
    location = TopicPartition(unique_topic, 0, 100)
    with session(old_kafka.bootstrap_servers) as producer:
        producer.append(numbered(unique_topic, 0, 100, 1))
        producer.flush()
        client = old_kafka.admin.client()
        assert client.delete_records([location])[location].result(30).low_watermark == 100
        for start in (100, 200):
            producer.append(numbered(unique_topic, start, 100, 1))
            producer.flush()
        errors = dict(producer.report(TaskAttempt()).errors)
    assert numbers_in(old_kafka.bootstrap_servers, unique_topic) == list(range(100, 300))
    assert ("UNKNOWN_PRODUCER_ID" in errors) is old_kafka.release.startswith("2.1")


def test_leader_is_killed_and_restarts(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    """Its partitions move to the other broker: no loss, no duplicates, in order."""
    old_kafka.admin.create_topic(unique_topic, 2, 2)
    servers = old_kafka.bootstrap_servers
    with session(servers, linger_ms=0, batch_size=1_000, request_timeout_ms=5_000) as producer:
        producer.append(numbered(unique_topic, 0, 2_000, 2))
        producer.flush()
        producer.append(numbered(unique_topic, 2_000, 2_000, 2))
        old_kafka.node(1).kill()
        producer.append(numbered(unique_topic, 4_000, 2_000, 2))
        producer.flush()
        old_kafka.restart(1)
        producer.append(numbered(unique_topic, 6_000, 2_000, 2))
        producer.flush()
    stored = by_confluent(servers, unique_topic)
    for partition in range(2):
        values = [int(record.value or b"-1") for record in stored if record.partition == partition]
        assert values == list(range(partition, 8_000, 2))


def test_broker_hangs_temporarily(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    """Requests time out, connections are closed, and the same batches are retried."""
    old_kafka.admin.create_topic(unique_topic, 2, 2)
    options = {"linger_ms": 0, "batch_size": 1_000, "request_timeout_ms": 1_000}
    with session(old_kafka.bootstrap_servers, **options) as producer:
        producer.append(numbered(unique_topic, 0, 2_000, 2))
        producer.flush()
        old_kafka.node(2).pause()
        try:
            producer.append(numbered(unique_topic, 2_000, 2_000, 2))
            wait_until(lambda: producer.report(TaskAttempt()).retries)
        finally:
            old_kafka.node(2).resume()
        producer.flush()
    assert numbers_in(old_kafka.bootstrap_servers, unique_topic) == list(range(4_000))
