"""Waits between retries."""

from random import Random

from spark_kafka_sink.kafka.client.backoff import full_jitter


def test_jitter_is_full_and_capped() -> None:
    waits = [full_jitter(attempt, 100, 1_000, Random(attempt)) for attempt in range(200)]
    assert all(0 <= wait <= 1.0 for wait in waits)
    assert all(full_jitter(0, 100, 1_000, Random(n)) <= 0.1 for n in range(100))
    assert max(waits) > 0.9
    assert min(waits[4:]) < 0.1
