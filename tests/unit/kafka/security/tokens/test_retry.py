"""Retries of token requests, like Java's Retry."""

from spark_kafka_sink.kafka.security.tokens.token_endpoint import next_wait_ms


def test_delays_double_until_the_timeout() -> None:
    waits: list[float] = []
    elapsed = 0.0
    while (wait := next_wait_ms(len(waits) + 1, elapsed, 100, 10_000)) is not None:
        waits.append(wait)
        elapsed += wait
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 3_700]
    assert elapsed == 10_000


def test_slow_attempts_count() -> None:
    assert next_wait_ms(1, 9_950, 100, 10_000) == 50
    assert next_wait_ms(1, 10_000, 100, 10_000) is None
    assert next_wait_ms(5_000, 0, 100, 10_000) == 10_000
