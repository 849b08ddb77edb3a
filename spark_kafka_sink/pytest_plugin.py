"""A pytest plugin with the fixture `kafka_broker`: an embedded broker for each test.

The broker creates a topic on the first write. A marker sets other options:
`@pytest.mark.kafka_broker(nodes=3, topics={"events": 4})`. Options of the test override those of
its class, which override those of its module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.broker.embedded import EmbeddedBroker

_MARKER = "kafka_broker"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers", f"{_MARKER}(**options): options of EmbeddedBroker for the fixture kafka_broker"
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """Yield an embedded Kafka broker, which is stopped after the test."""
    from spark_kafka_sink.broker.embedded import EmbeddedBroker

    options: dict[str, Any] = {"auto_create_topics": True}
    for mark in reversed(list(request.node.iter_markers(_MARKER))):
        if mark.args:
            pytest.fail(f"the marker {_MARKER} takes keywords only, not {mark.args}")
        options |= mark.kwargs
    try:
        broker = EmbeddedBroker(**options)
    except TypeError as error:
        pytest.fail(f"the marker {_MARKER}: {error}", pytrace=False)
    with broker:
        yield broker
