"""The table of APIs that the releases of Kafka support."""

from spark_kafka_sink.broker.config.kafka_releases import releases
from spark_kafka_sink.broker.handlers.served_apis import HANDLERS


def test_every_api_of_the_broker_is_listed() -> None:
    """The expected values are ApiVersions responses of real brokers."""
    assert releases()["4.3"].keys() == {handler.api for handler in HANDLERS.values()}


def test_no_version_exceeds_the_newest_release() -> None:
    newest = releases()["4.3"]
    for handler in HANDLERS.values():
        assert handler.versions.common(newest[handler.api]) == handler.versions, handler.api
