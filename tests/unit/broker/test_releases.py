"""The table of what the releases of Kafka serve."""

from __future__ import annotations

from spark_kafka_sink.broker.handlers.api_versions import HANDLERS
from spark_kafka_sink.broker.releases import releases


def test_it_has_every_api_that_the_broker_serves() -> None:
    """Real brokers' answers to ApiVersions say what belongs there."""
    assert releases()["4.3"].keys() == {handler.api for handler in HANDLERS.values()}


def test_no_version_is_served_that_the_newest_release_lacks() -> None:
    newest = releases()["4.3"]
    for handler in HANDLERS.values():
        assert handler.versions.common(newest[handler.api]) == handler.versions, handler.api
