"""The figures of a report on which several rules of the advice are based."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.histogram import MICROS_PER_S

if TYPE_CHECKING:
    from spark_kafka_sink.report.delivery_counters import DeliveryCounters

MIN_BATCHES = 20
"""Minimum number of batches for a conclusion about a setting."""
SMALL_BATCH_BYTES = 32 * 1024
"""Mean batch size below which a longer linger.ms can help."""
MIN_SHARE = 0.05
"""Share of the time below which no advice is given."""
_MANY_BATCHES_PER_S = 200
"""Number of batches per second in one task from which batches take 5% or more of the sender's time.
"""


class PipelineFacts:
    """Figures derived from a report and its settings.

    Sizes are in bytes, times in seconds unless the name ends with `_ms`.
    """

    def __init__(self, report: DeliveryCounters) -> None:
        self.report = report
        self.metrics = report.metrics
        self._settings = dict(report.metrics.settings)

    def setting(self, name: str, default: str = "") -> str:
        """Return a setting of the producers, or `default` if the report does not contain it."""
        return self._settings.get(name, default)

    def int_setting(self, name: str) -> int:
        """Return a setting that is a number, or 0 if the report does not contain it."""
        return int(self.setting(name, "0"))

    @property
    def linger_ms(self) -> float:
        """The setting linger.ms, in milliseconds."""
        return float(self.setting("linger.ms", "0"))

    @property
    def codec(self) -> str:
        """The setting compression.type."""
        return self.setting("compression.type", "none")

    @property
    def busy_s(self) -> float:
        """Total time of all tasks in seconds."""
        return self.report.duration_sum_ms / 1000

    @property
    def batches(self) -> int:
        """Number of batches acknowledged or sent."""
        return sum(partition.batches for partition in self.report.partitions)

    @property
    def batch_bytes(self) -> float:
        """Mean uncompressed size of a batch."""
        return self.report.bytes_uncompressed / max(1, self.batches)

    @property
    def fill_rate(self) -> float:
        """Uncompressed bytes per second added to one open batch."""
        fill = self.metrics.fill_time
        return self.batch_bytes / (fill.mean / MICROS_PER_S) if fill.total else 0.0

    @property
    def queue_time(self) -> float:
        """Time from a batch's first record to its first request."""
        return self.report.queue_latency.mean / MICROS_PER_S

    @property
    def wait_after_close(self) -> float:
        """Part of the queue time during which a batch was closed but not yet sent."""
        return max(0.0, self.queue_time - self.metrics.fill_time.mean / MICROS_PER_S)

    @property
    def round_trip(self) -> float:
        """Time from sending a Produce request until its response arrives."""
        return self.report.request_latency.mean / MICROS_PER_S

    @property
    def compressing_share(self) -> float:
        """Share of the time in which the codec thread was working."""
        return (
            self.metrics.compression_time.total / MICROS_PER_S / self.busy_s if self.busy_s else 0.0
        )

    @property
    def blocked_share(self) -> float:
        """Share of the time in which write() waited for buffer memory."""
        return self.metrics.buffer_wait / MICROS_PER_S / self.busy_s if self.busy_s else 0.0

    @property
    def waits_for_kafka(self) -> bool:
        """True if rows wait for Kafka, so that receiving rows sooner would not help."""
        return self.blocked_share >= 0.2

    @property
    def is_delayed_by_batches(self) -> bool:
        """True if batches cost time because they wait to be sent, block rows, or are too many."""
        each_second = self.batches / self.busy_s if self.busy_s else 0.0
        waits = self.wait_after_close >= self.round_trip / 2
        return waits or self.blocked_share >= MIN_SHARE or each_second >= _MANY_BATCHES_PER_S

    @property
    def throttled_share(self) -> float:
        """Share of the time in which brokers throttled the producers."""
        return self.report.throttle_ms / 1000 / self.busy_s if self.busy_s else 0.0
