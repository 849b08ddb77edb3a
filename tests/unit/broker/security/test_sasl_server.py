"""Lifetimes of SASL sessions."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from spark_kafka_sink.broker.security.sasl_server import SaslServer, SaslServerAuthenticator
from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.support.clock import ManualClock


class AnyToken(SaslServer):
    """A mechanism that accepts any token."""

    user = "alice"

    def __init__(self, expires_at_ms: int | None) -> None:
        self.expires_at_ms = expires_at_ms

    def evaluate(self, response: bytes) -> bytes:
        self.is_complete = True
        return response


def authenticated(
    max_reauth_ms: int, expires_at_ms: int | None
) -> tuple[SaslServerAuthenticator, object]:
    makers: dict[str, Callable[[], SaslServer]] = {"ANY": lambda: AnyToken(expires_at_ms)}
    authenticator = SaslServerAuthenticator(makers, max_reauth_ms)
    authenticator.handshake("ANY", 1)
    answer = authenticator.authenticate(b"", ManualClock(100.0, 900_000))
    return authenticator, answer["session_lifetime"]


@pytest.mark.parametrize(
    ("max_reauth_ms", "expires_at_ms", "lifetime_ms"),
    [
        (0, None, 0),
        (5_000, None, 5_000),
        (0, 1_003_000, 3_000),
        (5_000, 1_003_000, 3_000),
        (5_000, 1_009_000, 5_000),
        (0, 900_000, 0),
        (2**63 - 1, None, timedelta.max // timedelta(milliseconds=1)),
    ],
)
def test_shorter_lifetime_counts(
    max_reauth_ms: int, expires_at_ms: int | None, lifetime_ms: int
) -> None:
    _, lifetime = authenticated(max_reauth_ms, expires_at_ms)
    assert lifetime == timedelta(milliseconds=lifetime_ms)


def test_session_without_expiry_is_always_valid() -> None:
    authenticator, _ = authenticated(0, None)
    assert authenticator.admits(ApiKey.PRODUCE, 1e9)
    assert authenticator.admits(ApiKey.SASL_HANDSHAKE, 1e9)


def test_session_expires_to_the_millisecond() -> None:
    authenticator, _ = authenticated(5_000, None)
    assert authenticator.admits(ApiKey.PRODUCE, 105.0)
    with pytest.raises(ProtocolError, match="expired"):
        authenticator.admits(ApiKey.PRODUCE, 105.001)
    assert not authenticator.admits(ApiKey.SASL_HANDSHAKE, 106.0)
    with pytest.raises(ProtocolError, match="PRODUCE"):
        authenticator.check(ApiKey.PRODUCE)
