"""A sink and a stream with deliveryGuarantee=exactly-once, on a real Kafka."""

from pathlib import Path

import pytest

from tests.spark.exactly_once.exactly_once_writes import ExactlyOnce
from tests.spark.support.sink import Sink


@pytest.fixture
def once(sink: Sink, topic: str, tmp_path: Path) -> ExactlyOnce:
    """Return a writer to an empty topic with its own prefix."""
    return ExactlyOnce(sink, topic, tmp_path)
