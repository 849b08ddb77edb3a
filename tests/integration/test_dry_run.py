"""A dry run leaves nothing on the brokers and does not change the requests of later writes."""

import logging
import re

import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.producer.session_pool import borrow_session, give_back_session
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.producer_writes import numbered

TOPIC = "events"


def write_task(broker: EmbeddedBroker, *, dry_run: bool, **options: str) -> DeliveryReport:
    """Write a hundred rows like one Spark task."""
    named = {name.replace("__", "."): value for name, value in options.items()}
    config = SinkConfig.parse(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "topic": TOPIC,
            "kafka.debug": "protocol",
            "dryRun": str(dry_run),
            **named,
        }
    )
    session = borrow_session(config.producer, SessionSettings(dry_run=config.dry_run))
    session.append(numbered(TOPIC, 0, 100, 3))
    session.flush()
    give_back_session(session)
    return session.report(TaskAttempt())


def requests(caplog: pytest.LogCaptureFixture) -> set[str]:
    """Return the APIs of requests that the sink has sent since the last call."""
    apis = set(re.findall(r"api=(\w+)", caplog.text))
    caplog.clear()
    return apis


@pytest.mark.parametrize(
    "options",
    [
        {"kafka__compression__type": "lz4"},
        # These options of a dry run are those of a write with the same client.
        {"kafka__enable__idempotence": "false", "kafka__allow__auto__create__topics": "false"},
    ],
)
def test_dry_runs_and_writes_with_the_same_options(
    options: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="spark_kafka_sink")
    with EmbeddedBroker(topics={TOPIC: 4}) as broker:
        for number in range(2):
            dry = write_task(broker, dry_run=True, **options)
            assert (dry.persisted, dry.would_be_written) == (0, 100)
            assert [part.would_be_written for part in dry.partitions] == [34, 33, 33, 0]
            assert [codec.records for codec in dry.codecs] == [dry.codecs[0].records] * 5
            assert requests(caplog) <= {"API_VERSIONS", "METADATA"}
            assert sum(broker.end_offsets(TOPIC)) == 100 * number
            wet = write_task(broker, dry_run=False, **options)
            assert (wet.persisted, wet.would_be_written) == (100, 0)
            assert "PRODUCE" in requests(caplog)
            assert sum(broker.end_offsets(TOPIC)) == 100 * (number + 1)
            assert wet.bytes_sent == dry.bytes_sent
