"""The client of producer sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_kafka_sink.kafka.client.client import Client
from spark_kafka_sink.producer.limits.size_limits import BatchSizeLimits, RequestSizeLimit

if TYPE_CHECKING:
    from spark_kafka_sink.config.sink_config import ProducerConfig


class ProducerClient(Client):
    """A client that remembers the sizes that brokers have rejected. `parts` are as for `Client`."""

    config: ProducerConfig

    def __init__(self, config: ProducerConfig, **parts: Any) -> None:
        super().__init__(config, **parts)
        self.batch_size_limits = BatchSizeLimits(config.batch_size)
        self.request_size_limit = RequestSizeLimit(
            config.max_batched_request_size, config.max_request_size
        )
        """Used only by the sender thread."""
