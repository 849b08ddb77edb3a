"""A small Kafka broker in this process, so that tests and demos need nothing installed.

Reading order, as a request goes: net (event loop, frames, dispatch), handlers (one file per API),
then the state: cluster, partition, storage, coordinator; purgatory keeps what has to wait.
"""

from __future__ import annotations

from spark_kafka_sink.broker.config import BrokerConfig
from spark_kafka_sink.broker.embedded import EmbeddedBroker

__all__ = ["BrokerConfig", "EmbeddedBroker"]
