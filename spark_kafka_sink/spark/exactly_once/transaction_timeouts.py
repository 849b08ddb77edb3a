"""The timeout of the tasks' transactions, and warnings about transactions that are open for long.

Brokers abort a transaction that is open for longer than its timeout.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.clock import Clock, SystemClock
from spark_kafka_sink.config.exactly_once import TRANSACTION_TIMEOUT
from spark_kafka_sink.exactly_once.steps.transaction_checks import MIN_TIMEOUT_MS
from spark_kafka_sink.kafka.admin.topic_admin import TopicAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import borrowed_client
from spark_kafka_sink.kafka.protocol.transactions import NO_TIMEOUT_MS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spark_kafka_sink.config.sink_config import ProducerConfig, SinkConfig
    from spark_kafka_sink.exactly_once.task_transaction import TaskResult

_LOG = logging.getLogger(__name__)
_MAX_TIMEOUT = "transaction.max.timeout.ms"
_KAFKAS_DEFAULT_MS = 900_000
_NEAR = 0.5
"""Elapsed fraction of the timeout after which a warning is logged."""
_CAP_VALID_S = 60
"""Seconds after which the maximum transaction timeout is requested again."""
_CLOCK = SystemClock()


def broker_cap_ms(config: ProducerConfig, clock: Clock = _CLOCK) -> int:
    """Return the brokers' maximum transaction timeout in ms. It is cached for up to a minute.

    Raises:
        KafkaProdError: no broker can be reached.
    """
    return _broker_cap_ms(config, int(clock.monotonic() // _CAP_VALID_S))


@lru_cache(maxsize=4)
def _broker_cap_ms(config: ProducerConfig, period: int) -> int:  # noqa: ARG001 - part of the key
    with borrowed_client(config) as client:
        deadline = client.deadline(config.max_block_ms / 1000)
        value = TopicAdmin(client).broker_config(_MAX_TIMEOUT, deadline)
    if value is not None and value.isdecimal():
        return int(value)
    _warn_of_unknown_cap()
    return _KAFKAS_DEFAULT_MS


@lru_cache(maxsize=1)
def _warn_of_unknown_cap() -> None:
    _LOG.warning(
        "the brokers' %s is unknown without the permission DescribeConfigs on the cluster: "
        "assuming Kafka's default of %d minutes",
        _MAX_TIMEOUT,
        _KAFKAS_DEFAULT_MS // 60_000,
    )


def transaction_timeout_ms(config: SinkConfig) -> int:
    """Return the timeout of each task's transaction in milliseconds.

    Raises:
        ConfigError: the option exceeds what the brokers allow, or the timeout is so short that a
            paused driver could leave a batch partially committed.
        KafkaProdError: no broker can be reached.
    """
    options = config.exactly_once
    if options.two_phase_commit:
        return NO_TIMEOUT_MS
    cap = broker_cap_ms(config.producer)
    requested = options.transaction_timeout_ms
    if requested is not None and requested > cap:
        raise errors.ConfigError(
            f"option kafka.{TRANSACTION_TIMEOUT} is {requested}; the brokers allow at most {cap}",
            hint=f"Lower or remove it, or raise the brokers' {_MAX_TIMEOUT}.",
        )
    timeout_ms = requested or cap
    if timeout_ms < MIN_TIMEOUT_MS and not options.atomic_batch:
        raise _too_short(requested, cap)
    return timeout_ms


def _too_short(requested: int | None, cap: int) -> errors.ConfigError:
    """Return the error for a transaction timeout that is too short to decide a batch safely."""
    raise_cap = f"raise the brokers' {_MAX_TIMEOUT}, which is {cap}"
    if requested is None:
        cause = f"the brokers' {_MAX_TIMEOUT} is {cap}"
        hint = f"{raise_cap.capitalize()}."
    else:
        cause = f"option kafka.{TRANSACTION_TIMEOUT} is {requested}"
        hint = "Raise it, or remove it to use the brokers' maximum"
        hint += "." if cap >= MIN_TIMEOUT_MS else f", and {raise_cap}."
    return errors.ConfigError(
        f"{cause}; deliveryGuarantee=exactly-once needs at least {MIN_TIMEOUT_MS}: with a shorter "
        f"timeout, a paused driver could leave a batch partially committed",
        hint=hint,
    )


def warn_of_long_transactions(name: str, results: Sequence[TaskResult], now_ms: int) -> None:
    """Warn if a transaction was open for half of its timeout: the next batch might exceed it."""
    share, age_ms, timeout_ms = oldest(results, now_ms)
    if share >= _NEAR:
        _LOG.warning(
            "%s: its oldest transaction was open for %.0f s of the %.0f s after which the broker "
            "aborts it: write smaller batches, run more tasks in parallel, or raise the brokers' "
            "transaction.max.timeout.ms (and kafka.transaction.timeout.ms, if set)",
            name,
            age_ms / 1000,
            timeout_ms / 1000,
        )


def oldest(results: Sequence[TaskResult], now_ms: int) -> tuple[float, int, int]:
    """Return elapsed share, age and timeout (ms) for the transaction closest to its timeout."""
    ages = (
        (now_ms - result.transaction.started_ms, result.transaction.timeout_ms)
        for result in results
        if result.transaction is not None and result.transaction.timeout_ms > 0
    )
    return max(((age / timeout, age, timeout) for age, timeout in ages), default=(0.0, 0, 0))
