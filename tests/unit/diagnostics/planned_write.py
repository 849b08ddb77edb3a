"""Options of a write, and the operations that its user may perform, as bits."""

from spark_kafka_sink.config.sink_config import SinkConfig

WRITE, DESCRIBE, IDEMPOTENT_WRITE = 1 << 4, 1 << 8, 1 << 12


def config(**options: str) -> SinkConfig:
    kafka_options = {name.replace("_", "."): value for name, value in options.items()}
    return SinkConfig.parse(
        {"kafka.bootstrap.servers": "kafka:9092", "topic": "t", **kafka_options}
    )
