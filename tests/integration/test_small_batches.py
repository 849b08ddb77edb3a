"""max.message.bytes far below batch.size: only batches closed before the error are split."""

from typing import Any

import pytest

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.producer import session_pool as pool
from spark_kafka_sink.report.task_report import TaskInfo
from tests.integration.support.producer_writes import config, rows
from tools.support.admin import Admin
from tools.support.readers import by_confluent

LIMIT = 65_536
CHUNK, CHUNKS = 5_000, 20
VALUE = b"%08d" + b"." * 92


def _task(settings: ProducerConfig, topic: str, first: int) -> DeliveryReport:
    session = pool.borrow_session(settings)
    try:
        for chunk in range(CHUNKS):
            start = first + chunk * CHUNK
            values = [VALUE % number for number in range(start, start + CHUNK)]
            session.append(rows(topic, values, partitions=[0] * CHUNK))
        session.flush()
        report = session.report(TaskInfo())
    except BaseException:
        pool.discard_session(session)
        raise
    pool.give_back_session(session)
    return report


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_size_limit_is_remembered_for_the_next_task(
    any_kafka: Any, unique_topic: str, codec: str
) -> None:
    servers = any_kafka.bootstrap_servers
    limit = LIMIT if codec == "none" else LIMIT // 8
    Admin(servers).create_topic(
        unique_topic, partitions=1, configs={"max.message.bytes": str(limit)}
    )
    settings = config(servers, {"compression_type": codec, "client_id": unique_topic})
    first = _task(settings, unique_topic, 0)
    second = _task(settings, unique_topic, CHUNK * CHUNKS)
    total = 2 * CHUNK * CHUNKS
    assert first.persisted + second.persisted == total
    # On a busy machine all eleven batches are closed before the error, and each is split.
    assert 0 < first.splits <= 66
    assert second.splits == 0
    values = [record.value for record in by_confluent(servers, unique_topic)]
    assert values == [VALUE % number for number in range(total)]
