"""Threads and options of `EmbeddedBroker`."""

import threading
from typing import Any

import pytest

from spark_kafka_sink import EmbeddedBroker
from spark_kafka_sink.common.errors import BrokerUnavailableError, ConfigError


def test_stopped_broker_leaves_no_thread() -> None:
    before = threading.active_count()
    with EmbeddedBroker(topics={"t": 10}):
        pass
    assert threading.active_count() == before


def test_functions_run_on_the_broker_thread() -> None:
    with EmbeddedBroker() as kafka:
        assert kafka.run(lambda _: threading.current_thread().name) == "kafkaprod-broker"
        with pytest.raises(ZeroDivisionError):
            kafka.run(lambda _: 1 / 0)
        kafka.create_topic("made", 2, cleanup_policy="compact")
        assert kafka.end_offsets("made") == [0, 0]
    with pytest.raises(BrokerUnavailableError):
        kafka.end_offsets("made")


@pytest.mark.parametrize("options", [{"nodes": 0}, {"port": 70_000}, {"default_partitions": 0}])
def test_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        EmbeddedBroker(**options)
