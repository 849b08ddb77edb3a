"""The attempts to connect to one broker."""

from spark_kafka_sink.kafka.client.connection_attempts import ConnectionAttempts


def test_success_resets_failures() -> None:
    attempts = ConnectionAttempts()
    attempts.back_off(retry_at=5.0)
    attempts.back_off(retry_at=9.0)
    assert (attempts.failures, attempts.retry_at) == (2, 9.0)
    attempts.deadline = 19.0
    attempts.succeed()
    assert (attempts.failures, attempts.deadline) == (0, 0.0)
