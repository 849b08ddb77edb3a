"""The errors of failed batches: class, text and hint, by response and by the attempts before it."""

from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import AuthorizationError, DeliveryError, RecordTooLargeError
from spark_kafka_sink.kafka.protocol.error_codes import ClientErrorCode, ErrorCode
from spark_kafka_sink.kafka.protocol.produce import PartitionResponse
from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.acl_advisor import AclAdvisor
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.send.batch_failure import batch_error, timeout_error
from spark_kafka_sink.producer.send.batch_split import closed_batch

PARTITION = TopicPartition("t", 3)
ACLS = Mock(spec=AclAdvisor)
ACLS.describe_denied.return_value = "Write on topic t is denied"
ACLS.hint.return_value = "Add the ACL."


def failed_batch(records: int = 2) -> ProducerBatch:
    values = pa.array([b"v"] * records, pa.binary())
    columns = Columns(value=values, timestamps=np.zeros(records, np.int64))
    return closed_batch(PARTITION, 0.0, columns)


@pytest.mark.parametrize(
    ("code", "transactional", "hint"),
    [
        (ErrorCode.invalid_producer_epoch, True, "A newer producer uses this transactional id"),
        (ErrorCode.invalid_producer_epoch, False, "kafka.enable.idempotence=false"),
        (ErrorCode.invalid_txn_state, True, "A newer producer uses this transactional id"),
        (ErrorCode.message_too_large, False, "Raise max.message.bytes of the topic"),
        (ClientErrorCode.disconnected, False, "Check the connection to the brokers"),
        (ErrorCode.policy_violation, False, "See Kafka's documentation of this error."),
    ],
)
def test_hint(code: int, *, transactional: bool, hint: str) -> None:
    response = PartitionResponse(code=code)
    error = batch_error(failed_batch(), response, ACLS, transactional=transactional)
    assert hint in (error.hint or "")
    assert (error.topic, error.partition, type(error)) == ("t", 3, DeliveryError)


def test_text_has_the_response_and_the_lost_attempt() -> None:
    batch = failed_batch()
    batch.delivery.attempts, batch.delivery.loss = 2, "the broker closed the connection"
    batch.delivery.is_possibly_persisted = True
    rejected = tuple((index, f"bad {index}") for index in range(9))
    response = PartitionResponse(
        code=ErrorCode.invalid_record, message="no key", record_errors=rejected
    )
    assert batch_error(batch, response, ACLS).message == (
        f"a batch of 2 records ({batch.size} bytes) failed permanently and may be in the log: no "
        "key; attempt 2 got no response: the broker closed the connection; "
        "record 0: bad 0; record 1: bad 1; record 2: bad 2; record 3: bad 3; record 4: bad 4"
    )


def test_denied_batch() -> None:
    response = PartitionResponse(code=ErrorCode.topic_authorization_failed)
    error = batch_error(failed_batch(), response, ACLS)
    assert isinstance(error, AuthorizationError)
    assert error.message.endswith("failed permanently: Write on topic t is denied")
    assert error.hint == "Add the ACL."


@pytest.mark.parametrize(
    ("records", "persisted", "error_class"),
    [(1, False, RecordTooLargeError), (1, True, DeliveryError), (2, False, DeliveryError)],
)
def test_only_a_single_record_is_too_large(
    records: int, error_class: type[DeliveryError], *, persisted: bool
) -> None:
    """Records that may be in the log are not reported as rejected."""
    batch = failed_batch(records)
    batch.delivery.is_possibly_persisted = persisted
    response = PartitionResponse(code=ErrorCode.record_list_too_large)
    error = batch_error(batch, response, ACLS)
    assert type(error) is error_class
    assert "segment.bytes" in (error.hint or "")
    assert (" and may be in the log [" in str(error)) == persisted


@pytest.mark.parametrize(
    ("code", "loss", "throttled_ms", "text", "hint"),
    [
        (0, "", 0, "", "Check that the partition's leader is reachable"),
        (0, "", 1_500, "; a quota of the brokers has throttled", "Raise the quota"),
        (0, "timed out", 0, "; attempt 1 got no response: timed out", "Check that the partition's"),
        (
            ErrorCode.not_enough_replicas,
            "",
            1_500,
            "; the latest response was NOT_ENOUGH_REPLICAS",
            "Fewer replicas are in sync",
        ),
    ],
)
def test_timeout(code: int, loss: str, throttled_ms: int, text: str, hint: str) -> None:
    batch = failed_batch()
    delivery = batch.delivery
    delivery.attempts, delivery.rejection_code, delivery.loss = 1, code, loss
    reasons = {"b:9092": "refused", "a:9092": "no response"}
    error = timeout_error(batch, 120_000, reasons, throttled_ms)
    assert text in error.message
    assert "(a:9092: no response; b:9092: refused)" in error.message
    assert (error.hint or "").startswith(hint)
