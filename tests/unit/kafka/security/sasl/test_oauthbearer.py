"""OAUTHBEARER: one message, and the broker's error."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.secret import Secret
from spark_kafka_sink.config.security.security_config import (
    Mechanism,
    RefreshPolicy,
    SaslConfig,
    TokenLogin,
    UnsecuredTokenLogin,
)
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange
from spark_kafka_sink.kafka.security.sasl.factory import exchange_for
from spark_kafka_sink.kafka.security.sasl.oauthbearer import bearer_exchange
from spark_kafka_sink.kafka.security.tokens.token import Token, TokenSource
from spark_kafka_sink.kafka.security.tokens.token_cache import TokenCache


class CountingSource(TokenSource):
    """A shared source that returns a different token each time."""

    cache_key = "settings"

    def __init__(self) -> None:
        self.fetched = 0

    def fetch(self) -> Token:
        self.fetched += 1
        return Token(f"token-{self.fetched}", 10**15)


def exchange(token: str = "abc.def", extensions: tuple[tuple[str, str], ...] = ()) -> SaslExchange:
    login = TokenLogin(token=Secret(token, "kafka.token"), extensions=extensions)
    return exchange_for(SaslConfig(mechanism=Mechanism.OAUTHBEARER, login=login), "broker.test")


def begun() -> SaslExchange:
    login = exchange()
    login.initial_response()
    return login


def test_message_of_rfc_7628() -> None:
    login = exchange()
    assert login.mechanism == "OAUTHBEARER"
    assert login.initial_response() == b"n,,\x01auth=Bearer abc.def\x01\x01"
    assert login.next_response(b"") is None


def test_extensions_follow_the_token() -> None:
    login = exchange(extensions=(("logicalCluster", "lkc-123"), ("identityPoolId", "pool-4")))
    assert login.initial_response() == (
        b"n,,\x01auth=Bearer abc.def\x01logicalCluster=lkc-123\x01identityPoolId=pool-4\x01\x01"
    )


def test_unsecured_token() -> None:
    login = UnsecuredTokenLogin(claims=(("sub", "alice"),), extensions=(("traceId", "7"),))
    config = SaslConfig(mechanism=Mechanism.OAUTHBEARER, login=login)
    first = exchange_for(config, "broker.test").initial_response()
    assert first.startswith(b"n,,\x01auth=Bearer eyJhbGciOiAibm9uZSJ9.")
    assert first.endswith(b".\x01traceId=7\x01\x01")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (b'{"status":"invalid_token"}', "rejected the token: invalid_token"),
        (
            b'{"status":"insufficient_scope", "scope":"kafka-write"}',
            "insufficient_scope, it requires the scope kafka-write",
        ),
        (b"no json", "no json"),
        (b'{"other":1}', "other"),
        (b'{"status":{"a":1}}', "status"),
        (b"[" * 60_000, "rejected"),
        (b'{"a":' * 12_000, "rejected"),
        (b'{"status":"\\u0000\\n' + b"x" * 5_000 + b'"}', "rejected"),
    ],
)
def test_error_is_acknowledged_and_then_raised(error: bytes, expected: str) -> None:
    login = begun()
    assert login.next_response(error) == b"\x01"
    with pytest.raises(AuthenticationError) as caught:
        login.next_response(b"")
    assert expected in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
    assert "abc.def" not in str(caught.value)


@pytest.mark.parametrize("error", [b"\xff\xfe", b"x" * 100_000])
def test_invalid_error_message(error: bytes) -> None:
    with pytest.raises(AuthenticationError):
        begun().next_response(error)


@settings(max_examples=300, deadline=None, database=None)
@given(st.binary(min_size=1, max_size=300))
def test_garbage_never_succeeds(challenge: bytes) -> None:
    login = begun()
    try:
        assert login.next_response(challenge) == b"\x01"
    except AuthenticationError:
        return
    with pytest.raises(AuthenticationError):
        login.next_response(challenge)


@pytest.mark.parametrize("challenge", [b'{"status":"invalid_token"}', None])
def test_rejected_token_is_not_reused(challenge: bytes | None) -> None:
    source, cache = CountingSource(), TokenCache()
    first = bearer_exchange(source, RefreshPolicy(), cache=cache)
    again = bearer_exchange(source, RefreshPolicy(), cache=cache)
    after = bearer_exchange(source, RefreshPolicy(), cache=cache)
    assert first.initial_response() == again.initial_response()
    if challenge is None:
        again.reject()
    else:
        again.next_response(challenge)
    assert after.initial_response() == b"n,,\x01auth=Bearer token-2\x01\x01"
    assert source.fetched == 2
