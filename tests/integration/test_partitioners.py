"""Each partitioner assigns the same partitions as librdkafka."""

from random import Random

import pytest
from confluent_kafka import Producer

from spark_kafka_sink import EmbeddedBroker
from tests.support.producer_writes import produce, rows
from tools.support.admin import Admin
from tools.support.readers import by_confluent

PARTITIONS = 13
RANDOM = Random(11)
KEYS: list[bytes] = [
    b"",
    b"\x00",
    b"\xf54\x17z\x01",
    *{RANDOM.randbytes(RANDOM.randrange(2, 40)) for _ in range(400)},
]


def write_with_librdkafka(
    broker: EmbeddedBroker, topic: str, partitioner: str, keys: list[bytes]
) -> None:
    """Write each key also as value, to identify rows without a key."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": partitioner})
    for key in keys:
        producer.produce(topic, value=b"v" + key, key=key)
    assert producer.flush(30) == 0


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a"])
@pytest.mark.parametrize("suffix", ["", "_random"])
def test_same_partition_for_each_key(
    embedded_broker: EmbeddedBroker, unique_topic: str, name: str, suffix: str
) -> None:
    # consistent_random treats an empty key as missing and chooses any partition.
    keys = KEYS[1:] if name + suffix == "consistent_random" else KEYS
    Admin(embedded_broker.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    write_with_librdkafka(embedded_broker, unique_topic, name + suffix, keys)
    produce(
        embedded_broker.bootstrap_servers,
        rows(unique_topic, [b"v" + key for key in keys], keys=keys),
        partitioner=name + suffix,
    )
    locations: dict[bytes | None, list[int]] = {}
    for record in by_confluent(embedded_broker.bootstrap_servers, unique_topic):
        locations.setdefault(record.value, []).append(record.partition)
    assert len(locations) == len(keys)
    assert all(len(places) == 2 and len(set(places)) == 1 for places in locations.values())
    assert len({places[0] for places in locations.values()}) == PARTITIONS


@pytest.mark.parametrize("name", ["consistent", "murmur2", "fnv1a"])
def test_same_partition_without_key(
    embedded_broker: EmbeddedBroker, unique_topic: str, name: str
) -> None:
    Admin(embedded_broker.bootstrap_servers).create_topic(unique_topic, PARTITIONS)
    producer = Producer(
        {"bootstrap.servers": embedded_broker.bootstrap_servers, "partitioner": name}
    )
    producer.produce(unique_topic, value=b"theirs")
    assert producer.flush(30) == 0
    produce(embedded_broker.bootstrap_servers, rows(unique_topic, [b"ours"] * 3), partitioner=name)
    records = by_confluent(embedded_broker.bootstrap_servers, unique_topic)
    assert len(records) == 4
    assert len({record.partition for record in records}) == 1
