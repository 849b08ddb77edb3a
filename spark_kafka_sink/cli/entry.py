"""The entry point of `kafkaprod`. If libraries are missing, it prints which extra to install."""

from __future__ import annotations

import sys

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.optional_dependencies import require_extra


def run() -> None:
    """Run the command line. If libraries are missing, print how to install them and exit with 1."""
    try:
        require_extra("cli", "the command line")
    except ConfigError as error:
        sys.exit(f"kafkaprod: {error}")
    from spark_kafka_sink.cli.main import app

    app()
