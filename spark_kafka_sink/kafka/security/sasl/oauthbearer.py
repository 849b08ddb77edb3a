"""Messages and exchange of OAUTHBEARER (RFC 7628, KIP-255), also used for AWS_MSK_IAM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink.common.errors import AuthenticationError
from spark_kafka_sink.common.text import quoted
from spark_kafka_sink.kafka.security.sasl.exchange import SaslExchange, decode_text
from spark_kafka_sink.kafka.security.tokens.json_values import json_text, parse_json_object
from spark_kafka_sink.kafka.security.tokens.token_cache import TokenCache, shared_tokens

if TYPE_CHECKING:
    from spark_kafka_sink.config.security.security_config import RefreshPolicy
    from spark_kafka_sink.kafka.security.sasl.exchange import Messages
    from spark_kafka_sink.kafka.security.tokens.token import Token, TokenSource


_SEPARATOR = b"\x01"
"""Separator of key-value pairs. A single separator is the client's response to an error."""
_MECHANISM = "OAUTHBEARER"


def _client_first(token: Token, extensions: tuple[tuple[str, str], ...]) -> bytes:
    """Return the client's only message, unless the broker reports an error."""
    pairs = [f"auth=Bearer {token.value}", *(f"{name}={value}" for name, value in extensions)]
    return b"n,," + _SEPARATOR + b"".join(pair.encode() + _SEPARATOR for pair in pairs) + _SEPARATOR


def _describe_error(error: str) -> str:
    """Return the text of a broker's error, with its status and the required scope."""
    fields = parse_json_object(error)
    if fields is None:
        return quoted(error)
    status, scope = json_text(fields, "status"), json_text(fields, "scope")
    if status is None:
        return quoted(error)
    return quoted(status) + (f", it requires the scope {quoted(scope)}" if scope else "")


def bearer_exchange(
    source: TokenSource,
    policy: RefreshPolicy,
    extensions: tuple[tuple[str, str], ...] = (),
    *,
    cache: TokenCache = shared_tokens,
) -> SaslExchange:
    """Return an exchange that sends a token.

    Args:
        source: source of the token.
        policy: defines when the token is refreshed.
        extensions: SASL extensions of the login (KIP-342).
        cache: the token cache that connections share.
    """
    return SaslExchange(_MECHANISM, _messages(source, policy, extensions, cache))


def _messages(
    source: TokenSource,
    policy: RefreshPolicy,
    extensions: tuple[tuple[str, str], ...],
    cache: TokenCache,
) -> Messages:
    """Yield the token and the extensions; acknowledge an error and raise it.

    An empty response indicates success. A rejected token is not used for other connections. Kafka's
    brokers describe the error in a response; others reject the login at once.
    """
    token = cache.token(source, policy)
    try:
        response = yield _client_first(token, extensions)
    except AuthenticationError:
        cache.forget(token)
        raise
    if response:
        cache.forget(token)
        error = _describe_error(decode_text(response, _MECHANISM))
        yield _SEPARATOR
        raise AuthenticationError(f"the broker rejected the token: {error}")
