"""The attempts of a batch: when its delivery time begins, and its latest rejection."""

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode
from spark_kafka_sink.producer.buffer.delivery_progress import DeliveryProgress


def test_first_attempt_begins_the_delivery_time() -> None:
    delivery = DeliveryProgress()
    delivery.record_attempt(now=3.0, started_at=2.0, topic_id=None)
    delivery.record_attempt(now=5.0, started_at=4.0, topic_id=None)
    assert (delivery.attempts, delivery.sent_at, delivery.started_at) == (2, 5.0, 2.0)


def test_lost_response_keeps_the_code_of_the_latest_rejection() -> None:
    delivery = DeliveryProgress()
    code = ErrorCode.not_leader_or_follower
    delivery.record_retry(rejection_code=code, started_at=2.0)
    delivery.record_retry(rejection_code=0, started_at=3.0)
    assert (delivery.is_retried, delivery.rejection_code, delivery.started_at) == (True, code, 3.0)
