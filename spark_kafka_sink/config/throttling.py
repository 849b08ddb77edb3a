"""How much a session may put on the brokers, and when it gives up: the settled options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Records and uncompressed bytes a second of one task; 0 for no limit."""

    records: float = 0.0
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a breaker opens: percent of answers to be retried, failures for good; 0 for never."""

    retry_percent: int = 0
    failures: int = 0

    @property
    def enabled(self) -> bool:
        """Whether anything can open the breaker."""
        return self.retry_percent > 0 or self.failures > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerConfig:
    """The circuit breakers: `each` partition's and broker's, and the `job`'s, as a task sees it.

    Percents count from `min_batches` answers on; times in seconds.
    """

    each: Thresholds = field(default_factory=Thresholds)
    job: Thresholds = field(default_factory=Thresholds)
    min_batches: int = 20
    window: float = 30.0
    open_for: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureConfig:
    """What a session needs to know beside its `ProducerConfig`.

    `buffer_share` in percent of buffer.memory.
    """

    buffer_share: int = 50
    rates: RateLimits = field(default_factory=RateLimits)
    breaker: BreakerConfig = field(default_factory=BreakerConfig)

    @classmethod
    def settled(cls, values: Mapping[str, Any]) -> PressureConfig:
        """From the typed sink options; a job's rates are divided among its tasks.

        Every task gets the same share, for as long as it runs. The whole job keeps to its limit
        as long as no more than `rateLimit.job.tasks` tasks run at once, and falls short of it
        while fewer do.

        Raises:
            ConfigError: a limit for the job without the number of its tasks.
        """
        return cls(
            buffer_share=values["bufferShare"],
            rates=RateLimits(_rate(values, "recordsPerSecond"), _rate(values, "bytesPerSecond")),
            breaker=BreakerConfig(
                each=_thresholds(values, "errors.breaker."),
                job=_thresholds(values, "errors.breaker.job."),
                min_batches=values["errors.breaker.minBatches"],
                window=values["errors.breaker.windowMs"] / 1000,
                open_for=values["errors.breaker.openMs"] / 1000,
            ),
        )


def _thresholds(values: Mapping[str, Any], prefix: str) -> Thresholds:
    return Thresholds(values[f"{prefix}retryPercent"], values[f"{prefix}failures"])


def _rate(values: Mapping[str, Any], name: str) -> float:
    """The lower one of the task's own limit and its share of the job's."""
    own, job, tasks = (
        values[f"rateLimit.{name}"],
        values[f"rateLimit.job.{name}"],
        values["rateLimit.job.tasks"],
    )
    if job and not tasks:
        raise ConfigError(
            f"option rateLimit.job.{name} needs rateLimit.job.tasks",
            hint="Set it to the number of tasks that run at once: the cores that Spark has for "
            "the job, or the DataFrame's partitions where they are fewer.",
        )
    given = [rate for rate in (own, job / tasks if job else 0) if rate]
    return float(min(given, default=0.0))
