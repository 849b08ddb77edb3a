"""A folder with the segments of a topic, and what a broker has in it."""

import shutil
from pathlib import Path

from spark_kafka_sink import EmbeddedBroker
from tools.support.kafka_cluster import AnyKafka
from tools.support.raw_client import RawClient, batch, create, produce


def client_of(kafka: AnyKafka) -> RawClient:
    return RawClient(kafka.bootstrap_servers)


def broker_folder(folder: str, topic: str, partition: int = 0) -> Path:
    return Path(folder) / f"{topic}-{partition}"


def write_segments(folder: str, count: int) -> list[bytes]:
    """Write segments with one batch of two records each, and return the batches."""
    configs = {"internal.segment.bytes": "300"}
    with EmbeddedBroker(data_dir=folder, topics={"t": 1}, topic_configs={"t": configs}) as kafka:
        with client_of(kafka) as client:
            for _ in range(count):
                produce(client, "t", batch(2, value=bytes(100)))
        return kafka.batches("t", 0)


def write_until_crash(folder: str, crashed: Path, flush_messages: str = "100") -> list[bytes]:
    """Write 6 segments with one batch each. Copy the data folder while the broker runs."""
    with EmbeddedBroker(data_dir=folder) as kafka, client_of(kafka) as client:
        create(client, "t", internal_segment_bytes="300", flush_messages=flush_messages)
        for _ in range(6):
            produce(client, "t", batch(2, value=bytes(100)))
        shutil.copytree(folder, crashed)
        return kafka.batches("t", 0)
