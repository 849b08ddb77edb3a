"""max.message.bytes far below batch.size: only batches closed before the error are split."""

from typing import Any

import pytest

from spark_kafka_sink.producer.rows import Rows
from tests.support.producer_writes import rows, write_task
from tools.support.admin import Admin
from tools.support.readers import by_confluent

LIMIT = 65_536
CHUNK, CHUNKS = 5_000, 20
VALUE = b"%08d" + b"." * 92


def chunks(topic: str, first: int) -> list[Rows]:
    return [
        rows(
            topic,
            [VALUE % number for number in range(start, start + CHUNK)],
            partitions=[0] * CHUNK,
        )
        for start in range(first, first + CHUNK * CHUNKS, CHUNK)
    ]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_size_limit_is_remembered_for_the_next_task(
    any_kafka: Any, unique_topic: str, codec: str
) -> None:
    servers = any_kafka.bootstrap_servers
    limit = LIMIT if codec == "none" else LIMIT // 8
    Admin(servers).create_topic(
        unique_topic, partitions=1, configs={"max.message.bytes": str(limit)}
    )
    options = {"compression_type": codec, "client_id": unique_topic}
    first = write_task(servers, *chunks(unique_topic, 0), **options)
    second = write_task(servers, *chunks(unique_topic, CHUNK * CHUNKS), **options)
    total = 2 * CHUNK * CHUNKS
    assert first.persisted + second.persisted == total
    # On a busy machine all eleven batches are closed before the error, and each is split.
    assert 0 < first.splits <= 66
    assert second.splits == 0
    values = [record.value for record in by_confluent(servers, unique_topic)]
    assert values == [VALUE % number for number in range(total)]
