"""A small Kafka broker in this process, so that tests and demos need nothing installed.

Reading order, as a request goes: server (event loop), connection (frames), dispatch, handlers
(one file per API), then the state: topics, partition, log, validation, producers, transactions,
groups, delayed.
"""

from __future__ import annotations

from spark_kafka_sink.broker.config import BrokerConfig
from spark_kafka_sink.broker.embedded import EmbeddedBroker

__all__ = ["BrokerConfig", "EmbeddedBroker"]
