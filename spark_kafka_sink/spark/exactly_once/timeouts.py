"""The timeout of transactions: the maximum time for tasks and driver together."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_kafka_sink.admin.blocking_client import borrowed_client
from spark_kafka_sink.admin.topic_admin import TopicAdmin
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.exactly_once import TRANSACTION_TIMEOUT
from spark_kafka_sink.exactly_once.steps.driver import MIN_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.config.model import ProducerConfig, SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult

_LOG = logging.getLogger("spark_kafka_sink")
MAX_TIMEOUT = "transaction.max.timeout.ms"
NEVER_MS = 2**31 - 1
"""Timeout in milliseconds that brokers assign to a two-phase-commit transaction (KIP-939)."""
_KAFKAS_DEFAULT_MS = 900_000
_NEAR = 0.5
"""Share of the timeout above which the user is warned."""


@lru_cache(maxsize=4)
def broker_cap_ms(config: ProducerConfig) -> int:
    """Return the longest timeout that the brokers allow, in ms; requested once per process.

    Raises:
        KafkaProdError: no broker can be reached.
    """
    with borrowed_client(config) as client:
        deadline = client.deadline(config.max_block_ms / 1000)
        told = TopicAdmin(client).broker_config(MAX_TIMEOUT, deadline)
    if told is not None and told.isdecimal():
        return int(told)
    _LOG.warning(
        "%s of the brokers is not told without the right DescribeConfigs on the cluster: "
        "transactions may last %d minutes, Kafka's default",
        MAX_TIMEOUT,
        _KAFKAS_DEFAULT_MS // 60_000,
    )
    return _KAFKAS_DEFAULT_MS


def transaction_timeout_ms(config: SinkConfig) -> int:
    """Return the timeout of each task's transaction in milliseconds.

    Raises:
        ConfigError: the option exceeds what the brokers allow, or the timeout is so short that a
            pause of the driver could leave a batch partially committed.
        KafkaProdError: no broker can be reached.
    """
    options = config.exactly_once
    if options.two_phase_commit:
        return NEVER_MS
    cap = broker_cap_ms(config.producer)
    wanted = options.transaction_timeout_ms
    if wanted is not None and wanted > cap:
        raise ConfigError(
            f"option kafka.{TRANSACTION_TIMEOUT} is {wanted}, and the brokers allow {cap}",
            hint=f"Lower it, leave it out, or raise {MAX_TIMEOUT} of the brokers.",
        )
    timeout_ms = wanted or cap
    if timeout_ms < MIN_TIMEOUT_MS and not options.atomic_batch:
        raise _too_short(wanted, cap)
    return timeout_ms


def _too_short(wanted: int | None, cap: int) -> ConfigError:
    """Return the error for a timeout within which the driver cannot decide safely."""
    raise_cap = f"raise {MAX_TIMEOUT} of the brokers, which is {cap}"
    if wanted is None:
        where, hint = f"{MAX_TIMEOUT} of the brokers is {cap}", f"{raise_cap.capitalize()}."
    else:
        where = f"option kafka.{TRANSACTION_TIMEOUT} is {wanted}"
        hint = "Raise it, or leave it out for the longest that the brokers allow"
        hint += "." if cap >= MIN_TIMEOUT_MS else f", and {raise_cap}."
    return ConfigError(
        f"{where}; deliveryGuarantee=exactly-once needs {MIN_TIMEOUT_MS} at least: with a shorter "
        "timeout a pause of the driver could leave a batch partially committed",
        hint=hint,
    )


def warn_of_long_transactions(name: str, results: Sequence[TaskResult], now_ms: int) -> None:
    """Warn if this batch took half of the time allowed: the next one may take too long."""
    share, age_ms, timeout_ms = oldest(results, now_ms)
    if share >= _NEAR:
        _LOG.warning(
            "%s: its oldest transaction was open for %.0f s of the %.0f s after which the broker "
            "aborts it: write smaller batches, use more tasks at once, or raise "
            "transaction.max.timeout.ms of the brokers (and kafka.transaction.timeout.ms, if set)",
            name,
            age_ms / 1000,
            timeout_ms / 1000,
        )


def oldest(results: Sequence[TaskResult], now_ms: int) -> tuple[float, int, int]:
    """Return share, age and timeout (ms) of the transaction that is nearest to its timeout."""
    ages = (
        (now_ms - each.transaction.started_ms, each.transaction.timeout_ms)
        for each in results
        if each.transaction is not None and each.transaction.timeout_ms > 0
    )
    return max(((age / timeout, age, timeout) for age, timeout in ages), default=(0.0, 0, 0))
