"""InitProducerId 0-5: a new producer id at epoch 0 for whoever asks (KIP-98).

Without a transactional id Kafka ignores the id and epoch that the client has. A transactional id
is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED: clients take it as final and do not retry.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from spark_kafka_sink.broker.call import Answer, Call, Handler
from spark_kafka_sink.protocol.versions import ApiKey, VersionRange


def handle(call: Call) -> Answer:
    """See the module."""
    if call.request.transactional_id is not None:
        return {
            "error_code": ErrorCode.transactional_id_authorization_failed,
            "producer_id": -1,
            "producer_epoch": -1,
        }
    return {"producer_id": call.cluster.new_producer_id(), "producer_epoch": 0}


HANDLER = Handler(api=ApiKey.INIT_PRODUCER_ID, versions=VersionRange(0, 5), handle=handle)
