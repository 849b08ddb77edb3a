"""ConsumerGroupHeartbeat 0-1: refused, as a Kafka does whose feature group.version is 0 (KIP-848).

It is announced nevertheless: librdkafka waits for ever where it is not, and fails at once where it
is told UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.handlers.request_context import Answer, Handler, RequestContext
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange

MESSAGE = (
    "This broker has no consumer groups of the protocol KIP-848: set group.protocol=classic on "
    "the consumer."
)


def handle(context: RequestContext) -> Answer:
    """Handle the ConsumerGroupHeartbeat API."""
    return {
        "error_code": ErrorCode.unsupported_version,
        "error_message": MESSAGE,
        "member_id": context.request.member_id,
    }


HANDLER = Handler(api=ApiKey.CONSUMER_GROUP_HEARTBEAT, versions=VersionRange(0, 1), handle=handle)
