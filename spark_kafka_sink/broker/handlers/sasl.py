"""SaslHandshake and SaslAuthenticate outside of authentication.

SaslHandshake 0-1 selects a mechanism (KIP-43). SaslAuthenticate 0-2 carries the mechanism's
messages (KIP-152) and the session lifetime (KIP-368).

net/sasl_gate.py answers both during authentication. They reach these handlers only if the listener
has no SASL or the client is already authenticated, and fail with ILLEGAL_SASL_STATE, as in
KafkaApis.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


def sasl_handshake(context: RequestContext) -> Answer:  # noqa: ARG001 - as all handlers
    """Handle the SaslHandshake API."""
    return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}


SASL_HANDSHAKE = Handler(
    api=ApiKey.SASL_HANDSHAKE, versions=VersionRange(0, 1), handle=sasl_handshake
)


def sasl_authenticate(context: RequestContext) -> Answer:  # noqa: ARG001 - as all handlers
    """Handle the SaslAuthenticate API."""
    return {
        "error_code": ErrorCode.illegal_sasl_state,
        "error_message": "SaslAuthenticate request received after successful authentication",
        "auth_bytes": b"",
    }


SASL_AUTHENTICATE = Handler(
    api=ApiKey.SASL_AUTHENTICATE, versions=VersionRange(0, 2), handle=sasl_authenticate
)
