"""Options with secrets that Spark would show.

Spark includes the options of a SQL statement in its plans, and therefore in its UI and event log.
It redacts options whose name or value matches spark.redaction.regex. A Python data source cannot
read the Spark session's settings on the driver, so the default of spark.redaction.regex is assumed.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common.masking import is_redacted, is_secret
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.known_options import UserOptions, split_options
from spark_kafka_sink.config.schema_registry import REGISTRY_SECRETS
from spark_kafka_sink.config.security.security_values import SecurityValues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LOG = logging.getLogger(__name__)


def warn_of_displayed_secrets(options: Mapping[str, str]) -> None:
    """Warn once per process about each option with a secret that Spark does not redact."""
    for name in displayed_secrets(options):
        _warn_of_secret(name)


def displayed_secrets(options: Mapping[str, str]) -> list[str]:
    """Return the options, as the user spelled them, with a secret that Spark does not redact.

    Raises:
        ConfigError: see `SinkConfig.parse`, for names and security options.
    """
    return [
        spelling
        for name, spelling, value in plain_secrets(split_options(options))
        if not name.endswith(".id") and not is_redacted(name, value.reveal())
    ]


def plain_secrets(user_options: UserOptions) -> Iterator[tuple[str, str, Secret]]:
    """Yield the options whose value is a secret, not a reference to a secret.

    Each has its name, its name as the user spelled it, and its value.
    """
    security = user_options.security
    for name, value in SecurityValues.parse(security).values.items():
        if is_secret(name) and isinstance(value, Secret) and not value.is_reference:
            yield name, security.spelling(name), value
    for name, text in user_options.sink.items():
        if name in REGISTRY_SECRETS and not (value := Secret(text, name)).is_reference:
            yield name, name, value


@cache
def _warn_of_secret(name: str) -> None:
    _LOG.warning(
        "Option %s contains a secret that Spark may show in plans, UI and event log, because "
        "spark.redaction.regex does not match it by default: use file:PATH or env:NAME, or start "
        "Spark with conf/spark-redaction.conf",
        name,
    )
