"""A client that passes requests to the handlers of a cluster, without sockets."""

import struct
from datetime import timedelta
from typing import Any

from spark_kafka_sink.broker.authorization.denials import Denial, Denials
from spark_kafka_sink.broker.cluster.cluster import Cluster
from spark_kafka_sink.broker.cluster.jumping_clock import JumpingClock
from spark_kafka_sink.broker.cluster.nodes import BrokerNode, NodeSockets
from spark_kafka_sink.broker.config.broker_config import BrokerConfig
from spark_kafka_sink.broker.handlers.request_context import NoFields, RequestContext
from spark_kafka_sink.broker.handlers.served_apis import handlers_of
from spark_kafka_sink.broker.requests.purgatory import DelayedOperationPurgatory
from spark_kafka_sink.broker.storage.memory_backend import MemoryBackend
from spark_kafka_sink.kafka.protocol.acl import AclOperation, ResourceType
from spark_kafka_sink.kafka.protocol.message_format import decode, encode
from spark_kafka_sink.kafka.protocol.messages import FieldValues, build, response_buffers
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type, response_type
from tools.support.raw_client import RawClient

_USER = "alice"


class InProcessClient(RawClient):
    """Calls the handlers of node 1 as the user alice. Requests and responses are encoded."""

    def __init__(self, **config: Any) -> None:
        self.correlation_id = 0
        self.cluster = Cluster(
            BrokerConfig(**config),
            nodes=[BrokerNode(id=1, host="b", port=9092)],
            clock=JumpingClock(),
            backend=MemoryBackend(),
            purgatory=DelayedOperationPurgatory(),
            sockets=NodeSockets(*[lambda _: None] * 4),
            denials=Denials(),
        )

    def deny(self, operation: AclOperation, topic: str) -> None:
        self.cluster.denials.add(
            Denial(user=_USER, operation=operation, type=ResourceType.TOPIC, name=topic)
        )

    def send(self, api: ApiKey, version: int, **values: Any) -> int:
        handler = handlers_of(None)[api]
        assert version in handler.versions
        replies: list[FieldValues] = []
        kind = request_type(api, version)
        context = RequestContext(
            cluster=self.cluster,
            api=api,
            node=1,
            version=version,
            request=decode(kind, encode(build(kind, values)))[0],
            client_id="c",
            client_host="h",
            user=_USER,
            reply=replies.append,
            is_closed=lambda: False,
            explain=lambda _part, _reason: None,
        )
        self.cluster.tick()
        result = handler.handle_authorized(context)
        fields = replies.pop() if isinstance(result, NoFields) else result
        response = build(response_type(api, version), fields)
        self.correlation_id += 1
        self._frame = b"".join(response_buffers(response, self.correlation_id))
        return self.correlation_id

    def next_frame(self) -> bytes:
        return self._frame[4:]


def join_group(client: InProcessClient, **changes: Any) -> Any:
    """Join the group g as its only member, with a subscription to the topic t."""
    subscription = struct.pack(">hih1si", 0, 1, 1, b"t", -1)
    values = {
        "group_id": "g",
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=5),
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription}],
        "member_id": "",
    }
    return client.call(ApiKey.JOIN_GROUP, 3, **values | changes)
