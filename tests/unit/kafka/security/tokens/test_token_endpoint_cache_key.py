"""Tokens are shared between equal settings while their secrets stay the same."""

from pathlib import Path

from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import ClientCredentialsLogin
from spark_kafka_sink.kafka.security.tokens.token_endpoint import ClientCredentialsSource


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
