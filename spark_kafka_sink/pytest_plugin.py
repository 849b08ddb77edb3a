"""A pytest plugin: the fixture `kafka_broker` is an embedded broker of the test's own.

It creates topics when they are written. Other options come from a marker:
`@pytest.mark.kafka_broker(nodes=3, topics={"events": 4})`; those of the test go over those of its
class, and those over its module's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spark_kafka_sink.broker.embedded import EmbeddedBroker

MARKER = "kafka_broker"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(**options): how the fixture kafka_broker is set up; options of EmbeddedBroker",
    )


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    """An embedded Kafka broker, which ends with the test."""
    from spark_kafka_sink.broker.embedded import EmbeddedBroker

    options: dict[str, Any] = {"auto_create_topics": True}
    for mark in reversed(list(request.node.iter_markers(MARKER))):
        if mark.args:
            pytest.fail(f"the marker {MARKER} takes keywords only, not {mark.args}")
        options |= mark.kwargs
    try:
        broker = EmbeddedBroker(**options)
    except TypeError as error:
        pytest.fail(f"the marker {MARKER}: {error}", pytrace=False)
    with broker:
        yield broker
