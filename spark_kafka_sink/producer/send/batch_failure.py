"""The errors that failed batches raise: what failed, on which partition, and what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthorizationError, DeliveryError, RecordTooLargeError
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.kafka.protocol import error_codes
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode, error_name
from spark_kafka_sink.producer.buffer.session_state import throttled_note
from spark_kafka_sink.producer.rows import UNKNOWN_ROW, row_name
from spark_kafka_sink.producer.send.batch_split import records_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
    from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
    from spark_kafka_sink.producer.acl_advisor import AclAdvisor
    from spark_kafka_sink.producer.buffer.batch import ProducerBatch
    from spark_kafka_sink.producer.buffer.delivery_progress import DeliveryProgress

_RECONNECT = "Check the connection to the brokers, then run the write again."
_ENDED = (
    "A newer producer uses this transactional id, or the transaction exceeded "
    "transaction.timeout.ms: run the write again."
)
_FENCED = (
    "The broker rejects the epoch of this producer, which has no transactional id: run the write "
    "again, or set kafka.enable.idempotence=false."
)
_HINTS: Mapping[int, str] = {
    ErrorCode.invalid_producer_epoch: _ENDED,
    ErrorCode.producer_fenced: _ENDED,
    ErrorCode.invalid_txn_state: _ENDED,
    ErrorCode.transaction_abortable: _ENDED,
    ClientErrorCode.disconnected: _RECONNECT,
    ClientErrorCode.not_sent: _RECONNECT,
    ErrorCode.corrupt_message: (
        "Brokers before Kafka 2.4 also return this error for records that they reject, such as a "
        "record with a null key in a compacted topic."
    ),
    ErrorCode.message_too_large: (
        "Raise max.message.bytes of the topic (message.max.bytes of the broker), or make the rows "
        "smaller."
    ),
    ErrorCode.record_list_too_large: "Raise segment.bytes of the topic, or make the rows smaller.",
    ErrorCode.invalid_topic_exception: "Correct the topic's name.",
    ErrorCode.not_enough_replicas: (
        "Fewer replicas are in sync than min.insync.replicas of the topic requires: check the "
        "brokers, then run the write again."
    ),
    ErrorCode.invalid_timestamp: (
        "Correct the `timestamp` column, or raise message.timestamp.before.max.ms or "
        "message.timestamp.after.max.ms of the topic (brokers before Kafka 3.6: "
        "message.timestamp.difference.max.ms)."
    ),
    ErrorCode.unsupported_for_message_format: (
        "The topic uses a message format older than Kafka 0.11, which has no producer ids: set "
        "kafka.enable.idempotence=false, or raise message.format.version of the topic."
    ),
    ErrorCode.out_of_order_sequence_number: (
        "Earlier records may be missing from the log, or these records may already be in it "
        "because a response was lost: check the partition before you write to it again."
    ),
    ErrorCode.unknown_producer_id: (
        "The broker no longer has a record of this producer, and an earlier attempt "
        "may be in the log: check the partition before you write to it again."
    ),
    ErrorCode.invalid_record: (
        "Correct the listed records, or the topic's configuration (compacted topics need keys)."
    ),
}
_THROTTLED = (
    "Raise the quota of this user or client.id (producer_byte_rate, request_percentage), run fewer "
    "tasks at once, or raise kafka.delivery.timeout.ms."
)
_UNREACHED = "Check that the partition's leader is reachable, then run the write again."

_OUT_OF_ORDER = error_name(ErrorCode.out_of_order_sequence_number)


def too_large(batch: ProducerBatch, response: PartitionResponse) -> str:
    """Describe a batch of one record that is too large for the broker: row, key and size."""
    (record,) = records_of(batch)
    row_numbers = batch.row_numbers()
    number = UNKNOWN_ROW if row_numbers is None else int(row_numbers.numbers[0])
    name = row_name(number, row_numbers.spark_partition if row_numbers else None, record.key)
    sent = f" ({batch.size:,} compressed)" if batch.codec else ""
    message = f": {response.message}" if response.message else ""
    size = f"{batch.raw_size:,} bytes when serialized{sent}"
    return f"{name} is {size}, more than the broker accepts{message}"


def batch_error(
    batch: ProducerBatch,
    response: PartitionResponse,
    acls: AclAdvisor,
    *,
    transactional: bool = False,
) -> DeliveryError:
    """Return the error for a batch that failed permanently with this response."""
    code, topic = response.code, batch.topic_partition.topic
    if (
        code in error_codes.RECORDS_TOO_LARGE
        and batch.records == 1
        and not batch.delivery.is_possibly_persisted
    ):
        return RecordTooLargeError(
            too_large(batch, response),
            topic=topic,
            partition=batch.topic_partition.partition,
            kafka_error=error_name(code),
            hint=_HINTS[code],
        )
    denied = code in error_codes.AUTHORIZATION_FAILED
    details = [acls.describe_denied(code, topic)] if denied else []
    details += [text for text in (response.message, _loss_text(batch.delivery)) if text]
    details += [f"record {index}: {text}" for index, text in response.record_errors[:5]]
    if denied:
        return _permanent_error(batch, code, details, acls.hint(code, topic), AuthorizationError)
    is_fenced = code in error_codes.FENCED and not transactional
    hint = _FENCED if is_fenced else _HINTS.get(code, "See Kafka's documentation of this error.")
    return _permanent_error(batch, code, details, hint)


def _loss_text(delivery: DeliveryProgress) -> str:
    """Return why the latest attempt has no response, or "" if it has one."""
    if not delivery.loss:
        return ""
    return f"attempt {delivery.attempts} got no response: {delivery.loss}"


def unknown_producer_error(batch: ProducerBatch) -> DeliveryError:
    """Return the error for a possibly persisted batch if the broker has forgotten its producer."""
    code = ErrorCode.unknown_producer_id
    return _permanent_error(batch, code, [], _HINTS[code])


def _permanent_error(
    batch: ProducerBatch,
    code: int,
    details: list[str],
    hint: str,
    error_class: type[DeliveryError] = DeliveryError,
) -> DeliveryError:
    may_be_persisted = batch.delivery.is_possibly_persisted
    return error_class(
        f"a batch of {plural(batch.records, 'record')} ({batch.size:,} bytes) failed permanently"
        + (" and may be in the log" if may_be_persisted else "")
        + (f": {'; '.join(details)}" if details else ""),
        topic=batch.topic_partition.topic,
        partition=batch.topic_partition.partition,
        kafka_error=error_name(code),
        hint=hint,
    )


def timeout_error(
    batch: ProducerBatch, timeout_ms: int, reasons: Mapping[str, str], throttled_ms: int = 0
) -> DeliveryError:
    """Return the error for a batch that exceeded delivery.timeout.ms.

    Args:
        batch: the first expired batch.
        timeout_ms: delivery.timeout.ms.
        reasons: the reasons for connection failures, by address.
        throttled_ms: how long brokers have throttled the task.
    """
    seen = "; ".join(f"{address}: {reason}" for address, reason in sorted(reasons.items()))
    code, loss = batch.delivery.rejection_code, _loss_text(batch.delivery)
    latest = error_name(code) if code else None
    return _partition_error(
        batch.topic_partition,
        f"records were not acknowledged within delivery.timeout.ms = {timeout_ms}"
        + (f"; the latest response was {latest}" if latest else "")
        + (f"; {loss}" if loss else "")
        + (f" ({seen})" if seen else "")
        + throttled_note(throttled_ms),
        _HINTS.get(code, _THROTTLED if throttled_ms else _UNREACHED),
        latest,
    )


def rewound_error(topic_partition: TopicPartition, last: int, offset: int) -> DeliveryError:
    """Return the error for a batch appended at a lower offset than an earlier batch."""
    return _partition_error(
        topic_partition,
        f"the partition lost acknowledged records during the write: a batch was appended at "
        f"offset {offset}, after a batch at offset {last}",
        "The topic was deleted and recreated, or an unclean leader election lost records: run the "
        "write again.",
    )


def order_error(topic_partition: TopicPartition) -> DeliveryError:
    """Return the error for batches that a broker accepted out of order."""
    return _partition_error(
        topic_partition,
        "the broker no longer knew this producer and accepted its batches out of order",
        "Run the write again. Brokers forget a producer that is idle for "
        "producer.id.expiration.ms, or whose record timestamps are older than that.",
        _OUT_OF_ORDER,
    )


def gap_error(topic_partition: TopicPartition) -> DeliveryError:
    """Return the error for a log that may contain batches sent after a rejected batch."""
    return _partition_error(
        topic_partition,
        "records sent after a rejected batch may already be in the log, because a response was "
        "lost",
        "Run the write again.",
        _OUT_OF_ORDER,
    )


def removed_partition_error(batch: ProducerBatch, remaining: int) -> DeliveryError:
    """Return the error for a batch of a removed partition; `remaining` partitions are left."""
    return _partition_error(
        batch.topic_partition,
        f"the topic was deleted and recreated during the write and now has partitions 0 to "
        f"{remaining - 1}: the partition of {plural(batch.records, 'record')} no longer exists",
        "Run the write again: records that the deleted topic had acknowledged are lost.",
    )


def _partition_error(
    topic_partition: TopicPartition, message: str, hint: str, error: str | None = None
) -> DeliveryError:
    topic, number = topic_partition
    return DeliveryError(message, topic=topic, partition=number, kafka_error=error, hint=hint)
