"""``kafkaprod demo``: its options."""

from __future__ import annotations

from typing import Annotated

import typer

from spark_kafka_sink.cli import kafka_options
from spark_kafka_sink.cli.demo.run import DemoOptions, run_demo
from spark_kafka_sink.config.config_builder import BOOTSTRAP_OPTION
from spark_kafka_sink.config.sink_config import ProducerConfig


def demo(
    bootstrap_servers: Annotated[
        str | None, typer.Option(help="Kafka brokers to write to, instead of the embedded broker.")
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic to write to; created if missing.")] = "flights",
    partitions: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="Number of partitions of the topic.")
    ] = 4,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="NUMBER", help="Maximum number of flights; default: all 336,776."
        ),
    ] = None,
    option: kafka_options.OptionArguments = None,
    config: kafka_options.OptionsFile = None,
    timeout: kafka_options.Timeout = kafka_options.TIMEOUT_S,
) -> None:
    """Write a data set of flights in 2013 with Spark, and verify the records with another client.

    librdkafka reads the records back. It supports PEM truststores, and PEM and PKCS12 keystores,
    but not JKS. It requires Read on the topic and on the group kafkaprod-demo.
    """
    with kafka_options.exit_on_error():
        kafka = kafka_options.parse_write_options(config, option or ())
        options = DemoOptions(
            bootstrap_servers=bootstrap_servers or kafka.get(BOOTSTRAP_OPTION),
            topic=topic,
            partitions=partitions,
            limit=limit,
            kafka=kafka,
        )
        if options.bootstrap_servers is not None:
            servers = {BOOTSTRAP_OPTION: options.bootstrap_servers}
            kafka_options.wait_for_broker(ProducerConfig.parse({**kafka, **servers}), timeout)
        passed = run_demo(options)
    if not passed:
        raise typer.Exit(1)
