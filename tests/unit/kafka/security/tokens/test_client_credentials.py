"""Delays between attempts, and tokens that equal settings with equal secrets share."""

from pathlib import Path

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin
from spark_kafka_sink.kafka.security.tokens.client_credentials import (
    ClientCredentialsSource,
    next_wait_ms,
)


def source(secret: str) -> ClientCredentialsSource:
    login = ClientCredentialsLogin(
        token_endpoint_url="https://issuer.example/token",
        client_id=Secret("id", "kafka.some.client.id"),
        client_secret=Secret(secret, "kafka.some.client.secret"),
    )
    return ClientCredentialsSource(login)


def test_only_equal_secrets_share_a_token() -> None:
    assert source("s3nt1nel").cache_key == source("s3nt1nel").cache_key
    assert source("s3nt1nel").cache_key != source("two").cache_key
    assert "s3nt1nel" not in repr(source("s3nt1nel").cache_key)


def test_replaced_secret_file_changes_the_key(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("one")
    before = source(f"file:{file}").cache_key
    assert source(f"file:{file}").cache_key == before
    file.write_text("another")
    assert source(f"file:{file}").cache_key != before


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
