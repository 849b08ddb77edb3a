"""Secrets among the options that Spark itself would show: what is said of them on the driver.

Spark puts the options of a statement in SQL into its plans, and so into its UI and event log. It
hides what spark.redaction.regex knows by name or value; a Python data source is told no setting of
the session, so its default is what counts here.
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
    """Name the options, once per process, that hold a secret which Spark does not hide."""
    for name in shown_secrets(options):
        _warn(name)


def shown_secrets(options: Mapping[str, str]) -> list[str]:
    """The options, as the user calls them, that hold a secret itself which Spark does not hide.

    Raises:
        ConfigError: as `SinkConfig.parse`, of names and security options.
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
