"""Options and config that limit the load of a session on the brokers.

The limits are the buffer share of a broker, rate limits and circuit breakers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.config.option_definition import (
    Option,
    fields_of,
    int_field,
    int_option,
    long_field,
    long_option,
    options_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


_percent_option = partial(int_option, high=100)


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Maximum records and uncompressed bytes per second of one task; 0 for no limit.

    Each is the lower of the task's limit and its share of the job's limit.
    """

    records_per_second: float = long_field("rateLimit.recordsPerSecond", 0)
    """Maximum records per second for each task; 0: no limit."""
    bytes_per_second: float = long_field("rateLimit.bytesPerSecond", 0)
    """Maximum uncompressed bytes per second for each task; 0: no limit. After a quota throttles a
    task, or after many retries, the task continues at one sixteenth of its limits (without limits:
    of its previous rate) and doubles the rate every second.
    """
    job_records_per_second: ClassVar[Option] = long_option("rateLimit.job.recordsPerSecond", 0)
    """Maximum records per second of the whole job, divided equally among its tasks; 0: no limit."""
    job_bytes_per_second: ClassVar[Option] = long_option("rateLimit.job.bytesPerSecond", 0)
    """Maximum uncompressed bytes per second of the whole job, divided equally among its tasks; 0:
    no limit.
    """
    job_tasks: ClassVar[Option] = long_option("rateLimit.job.tasks", 0)
    """Number of concurrent tasks; the rateLimit.job limits are divided by this number. Required
    with such a limit, because Spark does not provide this number to tasks.
    """


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds at which a circuit breaker opens; 0 to never open it."""

    retry_percent: int = 0
    """The percentage of responses with a retriable error."""
    failures: int = 0
    """The number of batches that failed permanently."""

    @property
    def is_enabled(self) -> bool:
        """True if a threshold is set, so that the breaker can open."""
        return self.retry_percent > 0 or self.failures > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerConfig:
    """The thresholds of circuit breakers."""

    target: Thresholds = field(default_factory=Thresholds)
    """Of the breaker of one partition or broker."""
    target_retry_percent: ClassVar[Option] = _percent_option("errors.breaker.retryPercent", 0)
    """Percentage of responses with retriable errors at which the circuit breaker of a partition or
    broker opens; 0: never.
    """
    target_failures: ClassVar[Option] = long_option("errors.breaker.failures", 0)
    """Number of permanently failed batches at which the breaker of a partition opens, for example
    if writing to the topic is not authorized and errors.tolerance=all is set; 0: never.
    """
    job: Thresholds = field(default_factory=Thresholds)
    """Of the breaker of all partitions of a task."""
    job_retry_percent: ClassVar[Option] = _percent_option("errors.breaker.job.retryPercent", 0)
    """Percentage of responses with retriable errors over all partitions at which the task fails
    early; 0: never.
    """
    job_failures: ClassVar[Option] = long_option("errors.breaker.job.failures", 0)
    """Number of permanently failed batches over all partitions at which the task fails early; 0:
    never.
    """
    min_batches: int = long_field("errors.breaker.minBatches", 20, low=1)
    """Minimum number of responses before percentages are evaluated."""
    window_ms: int = long_field("errors.breaker.windowMs", 30_000, low=1_000)
    """Time window of the circuit breakers."""
    open_ms: int = long_field("errors.breaker.openMs", 5_000, low=1)
    """Time that the breaker of a partition or broker stays open before one batch is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlingConfig:
    """The limits of a session, in addition to its `ProducerConfig`."""

    buffer_share: int = int_field("bufferShare", 50, low=1, high=100)
    """Maximum percentage of kafka.buffer.memory for one broker if the topic is on several brokers;
    a single partition gets at most half of this share. At the limit, rows without a key are sent to
    other brokers, and all other rows wait. 100: no limit.
    """
    rates: RateLimits = field(default_factory=RateLimits)
    breaker: BreakerConfig = field(default_factory=BreakerConfig)

    @classmethod
    def from_options(cls, values: Mapping[str, Any]) -> Self:
        """Build the config from the parsed sink options.

        Every task gets the same fixed share of the job's limits. Therefore the job does not exceed
        a limit while at most `rateLimit.job.tasks` tasks run at once, but cannot reach the limit
        while fewer tasks run.

        Raises:
            ConfigError: a limit for the job is set without the number of its tasks.
        """
        return cls(
            **fields_of(cls, values),
            rates=RateLimits(
                _task_rate(values, "recordsPerSecond"), _task_rate(values, "bytesPerSecond")
            ),
            breaker=BreakerConfig(
                **fields_of(BreakerConfig, values),
                target=_breaker_thresholds(values, "errors.breaker."),
                job=_breaker_thresholds(values, "errors.breaker.job."),
            ),
        )


THROTTLING_OPTIONS = (
    *options_of(ThrottlingConfig),
    *options_of(RateLimits),
    *options_of(BreakerConfig),
)


def _breaker_thresholds(values: Mapping[str, Any], prefix: str) -> Thresholds:
    return Thresholds(values[f"{prefix}retryPercent"], values[f"{prefix}failures"])


def _task_rate(values: Mapping[str, Any], name: str) -> float:
    """Return the lower of the task's limit and its share of the job's limit; 0 for no limit."""
    task_rate, job_rate, tasks = (
        values[f"rateLimit.{name}"],
        values[f"rateLimit.job.{name}"],
        values["rateLimit.job.tasks"],
    )
    if job_rate and not tasks:
        raise ConfigError(
            f"option rateLimit.job.{name} requires rateLimit.job.tasks",
            hint="Set it to the number of tasks that run at the same time: the cores of the job, "
            "or the partitions of the DataFrame if there are fewer.",
        )
    rates = [rate for rate in (task_rate, job_rate / tasks if job_rate else 0) if rate]
    return float(min(rates, default=0.0))
