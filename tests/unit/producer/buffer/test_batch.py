"""The attempts of a batch, and the pieces that take its place."""

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.batch import ProducerBatch


def new_batch() -> ProducerBatch:
    return ProducerBatch(TopicPartition("t", 0), created_at=1.0, base_timestamp=0, max_timestamp=0)


def test_first_attempt_begins_the_delivery_time() -> None:
    sent = new_batch()
    sent.record_attempt(now=3.0, delivery_start=2.0, topic_id=None)
    sent.record_attempt(now=5.0, delivery_start=4.0, topic_id=None)
    assert (sent.attempts, sent.sent_at, sent.delivery_start) == (2, 5.0, 2.0)


def test_lost_response_keeps_the_code_of_the_latest_rejection() -> None:
    sent = new_batch()
    sent.record_retry(rejection_code=6, delivery_start=2.0)
    sent.record_retry(rejection_code=0, delivery_start=3.0)
    assert (sent.is_retried, sent.rejection_code, sent.delivery_start) == (True, 6, 3.0)


def test_pieces_are_in_order_before_later_batches() -> None:
    whole, first, second = new_batch(), new_batch(), new_batch()
    whole.label, whole.order = (7,), (3,)
    first.inherit_position(whole, 0)
    second.inherit_position(whole, 1)
    assert whole.order < first.order < second.order < (4,)
    assert (first.name, second.name) == ("7.0", "7.1")
