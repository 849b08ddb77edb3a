"""The progress of a batch through its attempts, and of the batches that replace it."""

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.batch import ProducerBatch


def batch() -> ProducerBatch:
    return ProducerBatch(TopicPartition("t", 0), created_at=1.0, base_timestamp=0, max_timestamp=0)


def test_first_attempt_begins_the_delivery_time() -> None:
    sent = batch()
    sent.record_attempt(now=3.0, timed_from=2.0)
    sent.record_attempt(now=5.0, timed_from=4.0)
    assert (sent.attempts, sent.sent_at, sent.timed_from) == (2, 5.0, 2.0)


def test_lost_response_keeps_the_code_of_the_latest_rejection() -> None:
    sent = batch()
    sent.record_retry(rejection_code=6, timed_from=2.0)
    sent.record_retry(rejection_code=0, timed_from=3.0)
    assert (sent.is_retried, sent.rejection_code, sent.timed_from) == (True, 6, 3.0)


def test_pieces_are_in_order_before_later_batches() -> None:
    whole, first, second = batch(), batch(), batch()
    whole.label, whole.order = (7,), (3,)
    first.succeed(whole, 0)
    second.succeed(whole, 1)
    assert whole.order < first.order < second.order < (4,)
    assert (first.name, second.name) == ("7.0", "7.1")
