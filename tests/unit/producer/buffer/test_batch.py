"""The pieces that take the place of a batch."""

from spark_kafka_sink.kafka.protocol.topic_partition import TopicPartition
from spark_kafka_sink.producer.buffer.batch import ProducerBatch


def new_batch() -> ProducerBatch:
    return ProducerBatch(TopicPartition("t", 0), created_at=1.0, base_timestamp=0, max_timestamp=0)


def test_pieces_are_in_order_before_later_batches() -> None:
    whole, first, second = new_batch(), new_batch(), new_batch()
    whole.label, whole.order = (7,), (3,)
    first.inherit_position(whole, 0)
    second.inherit_position(whole, 1)
    assert whole.order < first.order < second.order < (4,)
    assert (first.name, second.name) == ("7.0", "7.1")
