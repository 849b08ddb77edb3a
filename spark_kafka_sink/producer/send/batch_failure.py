"""The error that the failure of a batch becomes: what happened where, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.producer.send.error_policy import DISCONNECTED, NOT_SENT, error_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.send.produce import PartitionAnswer

_HINTS = {
    2: "brokers before Kafka 2.4 say so not of damage alone, but also of a record that they won't "
    "have, such as one with a null key in a compacted topic",
    10: "raise max.message.bytes of the topic (message.max.bytes of the broker), or send less",
    29: "grant Write on the topic",
    17: "correct the topic's name",
    43: "the topic keeps a message format older than Kafka 0.11, which has no producer ids: set "
    "kafka.enable.idempotence=false, or raise message.format.version of the topic",
    45: "records before these may be gone from the log, or these may be in it already after an "
    "answer that was lost: read the partition before it is written again",
    19: "min.insync.replicas of the topic wants more replicas in sync than there are",
    59: "the brokers know nothing of this producer any more, and an earlier attempt may be in the "
    "log: read the partition before it is written again",
    DISCONNECTED: "check the connection to the brokers, then run the write again",
    NOT_SENT: "check the connection to the brokers, then run the write again",
    32: "correct the `timestamp` column; message.timestamp.before.max.ms and .after.max.ms of the "
    "topic bound it (brokers before Kafka 3.6: message.timestamp.difference.max.ms)",
    87: "correct the records that are named, or the topic's settings (compaction needs keys)",
}
_UNREACHED = "check that the partition has a leader that can be reached, then run the write again"


def batch_error(batch: ProducerBatch, answer: PartitionAnswer) -> DeliveryError:
    """A batch failed for good with this answer."""
    details = [answer.message] if answer.message else []
    details += [f"record {index}: {text}" for index, text in answer.record_errors[:5]]
    return DeliveryError(
        f"a batch of {batch.records:,} records ({batch.size:,} bytes) failed for good"
        + (" and may be in the log from an earlier attempt" if batch.ambiguous else "")
        + (f": {'; '.join(details)}" if details else ""),
        topic=batch.partition.topic,
        partition=batch.partition.partition,
        error=error_name(answer.code),
        hint=_HINTS.get(answer.code, "see Kafka's documentation of this error"),
    )


def timeout_error(
    batch: ProducerBatch, timeout_ms: int, reasons: Mapping[str, str]
) -> DeliveryError:
    """A batch was overtaken by delivery.timeout.ms; `reasons` says why connections failed."""
    seen = "; ".join(f"{address}: {reason}" for address, reason in sorted(reasons.items()))
    return DeliveryError(
        f"records were not acknowledged within delivery.timeout.ms = {timeout_ms}"
        + (f"; the latest answer was {error_name(batch.refused)}" if batch.refused else "")
        + (f" ({seen})" if seen else ""),
        topic=batch.partition.topic,
        partition=batch.partition.partition,
        hint=_HINTS.get(batch.refused, _UNREACHED),
    )


def vanished_error(batch: ProducerBatch, left: int) -> DeliveryError:
    """A batch waits for a partition that its topic, made anew with `left` of them, has no more."""
    return DeliveryError(
        f"the topic was deleted and made anew while rows were being written to it, and has "
        f"partitions 0 to {left - 1} now: the one of these {batch.records:,} records is gone",
        topic=batch.partition.topic,
        partition=batch.partition.partition,
        hint="run the write again, for the partitions that there are now; what the old topic had "
        "acknowledged is gone with it",
    )
