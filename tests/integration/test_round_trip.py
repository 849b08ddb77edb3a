"""Records of every kind with every codec, read by every other client."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import randbytes

import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.config.enums import Codec
from spark_kafka_sink.producer.rows import Rows
from tests.support.producer_writes import produce, rows
from tests.support.readers import by_kafka_python, by_kcat, dump, dumped_batches, dumped_records
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka, KafkaCluster
from tools.support.readers import ForeignRecord, by_confluent, by_console_consumer, in_order

ROWS = 400
FIRST_MS = 1_700_000_000_000
Reader = Callable[[str, str], list[ForeignRecord]]

HEADERS = (
    (),
    (("trace", b"abc"),),
    (("a", b"1"), ("a", b"2"), ("empty", b"")),
    (("nothing", None),),
)
KEYS = (None, b"", b"key", "Schlüssel".encode(), b"k" * 300)


@dataclass(frozen=True, slots=True)
class Written:
    """A topic with a partition for each codec, with expected records and reports."""

    bootstrap_servers: str
    topic: str
    expected: list[ForeignRecord]
    reports: dict[Codec, DeliveryReport]


def value_of(number: int) -> bytes | None:
    if number % 7 == 0:
        return None
    return b"" if number % 11 == 0 else b"value %d " % number * (number % 90)


def expected_records(topic: str, codec: Codec) -> list[ForeignRecord]:
    return [
        ForeignRecord(
            topic=topic,
            partition=codec.value,
            offset=number,
            timestamp=FIRST_MS + (number * 37) % 1000 * 60_000,
            key=KEYS[number % len(KEYS)],
            value=value_of(number),
            headers=HEADERS[number % len(HEADERS)],
        )
        for number in range(ROWS)
    ]


def to_rows(records: list[ForeignRecord]) -> Rows:
    return rows(
        records[0].topic,
        [record.value for record in records],
        keys=[record.key for record in records],
        headers=[record.headers for record in records],
        timestamps=[record.timestamp for record in records],
        partitions=[record.partition for record in records],
    )


def write(bootstrap_servers: str, topic: str) -> Written:
    Admin(bootstrap_servers).create_topic(topic, len(Codec))
    expected: list[ForeignRecord] = []
    reports = {}
    for codec in Codec:
        records = expected_records(topic, codec)
        expected += records
        reports[codec] = produce(
            bootstrap_servers,
            to_rows(records),
            compression_type=codec.name.lower(),
            batch_size=30_000,
        )
    return Written(bootstrap_servers, topic, in_order(expected), reports)


@pytest.fixture(scope="module")
def on_kafka(real_kafka: KafkaCluster) -> Written:
    return write(real_kafka.bootstrap_servers, "round-trip")


@pytest.fixture(scope="module")
def on_embedded(embedded_broker: EmbeddedBroker) -> Written:
    return write(embedded_broker.bootstrap_servers, "round-trip")


@pytest.fixture(params=["kafka", "embedded"])
def written(request: pytest.FixtureRequest) -> Written:
    records_of_broker: Written = request.getfixturevalue(f"on_{request.param}")
    return records_of_broker


@pytest.mark.parametrize("reader", [by_confluent, by_kafka_python, by_kcat])
def test_other_clients_read_the_records(written: Written, reader: Reader) -> None:
    assert reader(written.bootstrap_servers, written.topic) == written.expected


def test_console_consumer_reads_the_records(on_kafka: Written) -> None:
    consumed = by_console_consumer(on_kafka.bootstrap_servers, on_kafka.topic)
    assert consumed == on_kafka.expected


@pytest.mark.parametrize("codec", Codec)
def test_log_contains_the_records(
    on_kafka: Written, real_kafka: KafkaCluster, codec: Codec
) -> None:
    printed = dump(real_kafka.partition_dir(on_kafka.topic, codec.value))
    batches = dumped_batches(printed)
    assert all(batch.is_valid for batch in batches)
    assert {batch.codec for batch in batches} == {codec.name.lower()}
    assert len(batches) > 3
    assert len({batch.producer_id for batch in batches}) == 1
    assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]
    expected = [
        replace(record, headers=tuple((name, None) for name, _ in record.headers))
        for record in on_kafka.expected
        if record.partition == codec.value
    ]
    assert dumped_records(printed, on_kafka.topic, codec.value) == expected


@pytest.mark.parametrize("sizes", [[1_048_480], [65_520] * 16], ids=["one", "many"])
@pytest.mark.parametrize("codec", Codec)
def test_incompressible_batch_is_sent_uncompressed(
    any_kafka: AnyKafka, unique_topic: str, codec: Codec, sizes: list[int]
) -> None:
    """The batch is almost as large as the broker's default for max.message.bytes."""
    servers, values = any_kafka.bootstrap_servers, [randbytes(size) for size in sizes]
    Admin(servers).create_topic(unique_topic, 1)
    options = {"batch_size": 1_048_588, "compression_type": codec.name.lower()}
    report = produce(servers, rows(unique_topic, values), **options)
    assert (report.persisted, report.splits) == (len(values), 0)
    assert [record.value for record in by_confluent(servers, unique_topic)] == values
