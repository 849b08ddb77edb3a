"""Options and config that limit the load of a session on the brokers.

The limits are the buffer share of a broker, rate limits and circuit breakers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option_definition import int_option, long_option, options_of

if TYPE_CHECKING:
    from collections.abc import Mapping


_percent_option = partial(int_option, high=100)


class ThrottlingOptions:
    """The buffer share, rate limits and circuit breakers."""

    buffer_share = _percent_option("bufferShare", 50, low=1)
    """Maximum percentage of kafka.buffer.memory for one broker if the topic is on several brokers;
    a single partition gets at most half of this share. At the limit, rows without a key are sent to
    other brokers, and all other rows wait. 100: no limit.
    """
    rate_limit_records_per_second = long_option("rateLimit.recordsPerSecond", 0)
    """Maximum records per second for each task; 0: no limit."""
    rate_limit_bytes_per_second = long_option("rateLimit.bytesPerSecond", 0)
    """Maximum uncompressed bytes per second for each task; 0: no limit. After a quota throttles a
    task, or after many retries, the task continues at one sixteenth of its limits (without limits:
    of its previous rate) and doubles the rate every second.
    """
    rate_limit_job_records_per_second = long_option("rateLimit.job.recordsPerSecond", 0)
    """Maximum records per second of the whole job, divided equally among its tasks; 0: no limit."""
    rate_limit_job_bytes_per_second = long_option("rateLimit.job.bytesPerSecond", 0)
    """Maximum uncompressed bytes per second of the whole job, divided equally among its tasks; 0:
    no limit.
    """
    rate_limit_job_tasks = long_option("rateLimit.job.tasks", 0)
    """Number of concurrent tasks; the rateLimit.job limits are divided by this number. Required
    with such a limit, because Spark does not provide this number to tasks.
    """
    errors_breaker_retry_percent = _percent_option("errors.breaker.retryPercent", 0)
    """Percentage of responses with retriable errors at which the circuit breaker of a partition or
    broker opens; 0: never.
    """
    errors_breaker_failures = long_option("errors.breaker.failures", 0)
    """Number of permanently failed batches at which the breaker of a partition opens, for example
    if writing to the topic is not authorized and errors.tolerance=all is set; 0: never.
    """
    errors_breaker_job_retry_percent = _percent_option("errors.breaker.job.retryPercent", 0)
    """Percentage of responses with retriable errors over all partitions at which the task fails
    early; 0: never.
    """
    errors_breaker_job_failures = long_option("errors.breaker.job.failures", 0)
    """Number of permanently failed batches over all partitions at which the task fails early; 0:
    never.
    """
    errors_breaker_min_batches = long_option("errors.breaker.minBatches", 20, low=1)
    """Minimum number of responses before percentages are evaluated."""
    errors_breaker_window_ms = long_option("errors.breaker.windowMs", 30_000, low=1_000)
    """Time window of the circuit breakers."""
    errors_breaker_open_ms = long_option("errors.breaker.openMs", 5_000, low=1)
    """Time that the breaker of a partition or broker stays open before one batch is tried."""


THROTTLING_OPTIONS = options_of(ThrottlingOptions)
"""The throttling options, which are part of the sink's own options."""


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Maximum records and uncompressed bytes per second of one task; 0 for no limit."""

    records_per_second: float = 0.0
    bytes_per_second: float = 0.0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds at which a circuit breaker opens; 0 to never open it.

    `retry_percent` is the percentage of responses with a retriable error, and `failures` the number
    of batches that failed permanently.
    """

    retry_percent: int = 0
    failures: int = 0

    @property
    def is_enabled(self) -> bool:
        """True if a threshold is set, so that the breaker can open."""
        return self.retry_percent > 0 or self.failures > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerConfig:
    """Circuit breakers: `target` for one partition or broker, `job` for all partitions of a task.

    Percentages are evaluated only after `min_batches` responses. `window` and `open_for` are in
    seconds.
    """

    target: Thresholds = field(default_factory=Thresholds)
    job: Thresholds = field(default_factory=Thresholds)
    min_batches: int = 20
    window: float = 30.0
    open_for: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlingConfig:
    """The limits of a session, in addition to its `ProducerConfig`.

    `buffer_share` is in percent of buffer.memory.
    """

    buffer_share: int = 50
    rates: RateLimits = field(default_factory=RateLimits)
    breaker: BreakerConfig = field(default_factory=BreakerConfig)

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> ThrottlingConfig:
        """Build the config from the parsed sink options.

        Every task gets the same fixed share of the job's limits. Therefore the job does not exceed
        a limit while at most `rateLimit.job.tasks` tasks run at once, but cannot reach the limit
        while fewer tasks run.

        Raises:
            ConfigError: a limit for the job is set without the number of its tasks.
        """
        return cls(
            buffer_share=values["bufferShare"],
            rates=RateLimits(_rate(values, "recordsPerSecond"), _rate(values, "bytesPerSecond")),
            breaker=BreakerConfig(
                target=_thresholds(values, "errors.breaker."),
                job=_thresholds(values, "errors.breaker.job."),
                min_batches=values["errors.breaker.minBatches"],
                window=values["errors.breaker.windowMs"] / 1000,
                open_for=values["errors.breaker.openMs"] / 1000,
            ),
        )


def _thresholds(values: Mapping[str, Any], prefix: str) -> Thresholds:
    return Thresholds(values[f"{prefix}retryPercent"], values[f"{prefix}failures"])


def _rate(values: Mapping[str, Any], name: str) -> float:
    """Return the lower of the task's limit and its share of the job's limit; 0 for no limit."""
    own, job, tasks = (
        values[f"rateLimit.{name}"],
        values[f"rateLimit.job.{name}"],
        values["rateLimit.job.tasks"],
    )
    if job and not tasks:
        raise ConfigError(
            f"option rateLimit.job.{name} requires rateLimit.job.tasks",
            hint="Set it to the number of tasks that run at the same time: the cores of the "
            "job, or the partitions of the DataFrame if there are fewer.",
        )
    rates = [rate for rate in (own, job / tasks if job else 0) if rate]
    return float(min(rates, default=0.0))
