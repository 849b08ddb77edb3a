"""A broker that accepts records at a fixed rate and discards them, in a separate process.

    python -m tools.support.slow_broker PARTITIONS BYTES_PER_SECOND

It prints its port. A real broker would need disk space for the records, and its speed would
depend on the load of the machine.
"""

import socket
import sys
import threading
import time
from typing import Any

from spark_kafka_sink.kafka.protocol.codec import decode
from spark_kafka_sink.kafka.protocol.messages import build, read_request_header, response_frame
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    request_type,
    response_type,
)

SERVED = (ApiKey.API_VERSIONS, ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE)
HIGHEST_PRODUCE = 12


class SlowBroker:
    """Accepts records from a producer at a limited rate."""

    def __init__(self, partitions: int, rate: float) -> None:
        self.partitions = partitions
        self.rate = rate
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.server.getsockname()[1])
        self._lock = threading.Lock()
        self._free_at = 0.0

    def serve(self) -> None:
        """Serve connections until the process exits."""
        while True:
            connection, _ = self.server.accept()
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        while (size := _read(connection, 4)) is not None:
            frame = _read(connection, int.from_bytes(size, "big"))
            if frame is None:
                return
            self._take_time(len(frame))
            header = read_request_header(frame)
            kind = request_type(header.api_key, header.version)
            request, _ = decode(kind, frame, header.body_offset)
            answer = self._answer(ApiKey(header.api_key), request)
            reply = build(response_type(header.api_key, header.version), answer)
            connection.sendall(response_frame(reply, header.correlation_id))

    def _take_time(self, size: int) -> None:
        with self._lock:
            now = time.monotonic()
            self._free_at = max(self._free_at, now) + size / self.rate
            wait = self._free_at - now
        time.sleep(wait)

    def _answer(self, api: ApiKey, request: Any) -> dict[str, Any]:
        if api is ApiKey.API_VERSIONS:
            return {"api_keys": [_range(api) for api in SERVED]}
        if api is ApiKey.INIT_PRODUCER_ID:
            return {"producer_id": 1, "producer_epoch": 0}
        if api is ApiKey.METADATA:
            return self._metadata(request)
        return {"responses": [_taken(topic) for topic in request.topic_data]}

    def _metadata(self, request: Any) -> dict[str, Any]:
        partitions = [{"partition_index": n, "leader_id": 1} for n in range(self.partitions)]
        topics = [{"name": topic.name, "partitions": partitions} for topic in request.topics]
        nodes = [{"node_id": 1, "host": "127.0.0.1", "port": self.port}]
        return {"brokers": nodes, "cluster_id": "slow", "controller_id": 1, "topics": topics}


def _range(api: ApiKey) -> dict[str, int]:
    span = CLIENT_VERSIONS[api]
    highest = HIGHEST_PRODUCE if api is ApiKey.PRODUCE else span.highest
    return {"api_key": int(api), "min_version": span.lowest, "max_version": highest}


def _taken(topic: Any) -> dict[str, Any]:
    partition = {"base_offset": 0, "log_append_time": None}
    partitions = [partition | {"index": part.index} for part in topic.partition_data]
    return {"name": topic.name, "partition_responses": partitions}


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        count = connection.recv_into(view[at:])
        if not count:
            return None
        at += count
    return bytes(data)


if __name__ == "__main__":
    broker = SlowBroker(int(sys.argv[1]), float(sys.argv[2]))
    print(broker.port, flush=True)
    broker.serve()
