"""SaslHandshake 0-1: the choice of a mechanism (KIP-43).

Answered before authentication (net/sasl_gate.py). Here it comes without SASL, or too late, and is
ILLEGAL_SASL_STATE as in KafkaApis.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


def handle(context: RequestContext) -> Answer:  # noqa: ARG001 - as all handlers
    """Handle the SaslHandshake API."""
    return {"error_code": ErrorCode.illegal_sasl_state, "mechanisms": ()}


HANDLER = Handler(api=ApiKey.SASL_HANDSHAKE, versions=VersionRange(0, 1), handle=handle)
