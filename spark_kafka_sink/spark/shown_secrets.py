"""Warnings on the driver about secrets in options that Spark would display.

Spark includes the options of a SQL statement in its plans, and therefore in its UI and event log.
It redacts options whose name or value matches spark.redaction.regex. A Python data source cannot
read the session's settings on the driver, so the default of that setting is assumed.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.secret import Secret, is_redacted, is_secret
from spark_kafka_sink.config.names import split_options
from spark_kafka_sink.config.security.values import SecurityValues

if TYPE_CHECKING:
    from collections.abc import Mapping

_LOG = logging.getLogger(__name__)


def warn_of_shown_secrets(options: Mapping[str, str]) -> None:
    """Warn, once per process, of each option with a secret that Spark does not redact."""
    for name in shown_secrets(options):
        _warn(name)


def shown_secrets(options: Mapping[str, str]) -> list[str]:
    """Return the options, as the user spelled them, with a secret that Spark does not redact.

    Raises:
        ConfigError: see `SinkConfig.parse`, for names and security options.
    """
    given = split_options(options).security
    return [
        given.given_name(name)
        for name, value in SecurityValues.parse(given).values.items()
        if isinstance(value, Secret)
        and not value.is_reference
        and is_secret(name)
        and not name.endswith(".id")
        and not is_redacted(name, value.reveal())
    ]


@cache
def _warn(name: str) -> None:
    _LOG.warning(
        "Option %s holds a secret that Spark may show in plans, UI and event log, as "
        "spark.redaction.regex does not know it by default: give it as file:PATH or env:NAME, or "
        "start Spark with conf/spark-redaction.conf",
        name,
    )
