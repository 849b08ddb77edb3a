"""A loopback server that responds to Kafka requests with a script."""

import socket
from collections.abc import Callable, Iterator
from typing import Any

from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.messages import build, read_request_header
from spark_kafka_sink.kafka.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    request_type,
    response_type,
)
from tools.support.frames import response_frame

Script = Callable[[ApiKey, Any], "dict[str, Any] | bytes"]
"""Returns the fields of the response to a request, or raw bytes to send."""

API_VERSIONS = {
    "api_keys": [
        {"api_key": int(api), "min_version": span.lowest, "max_version": span.highest}
        for api, span in CLIENT_VERSIONS.items()
    ]
}


def scripted_broker(script: Script) -> Callable[[socket.socket], None]:
    """Return a connection handler that serves ApiVersions and passes other requests to `script`."""

    def serve(connection: socket.socket) -> None:
        for frame in frames(connection):
            header = read_request_header(frame)
            api, version = ApiKey(header.api_key), header.version
            request, _ = decode(request_type(api, version), frame, header.body_offset)
            response = API_VERSIONS if api is ApiKey.API_VERSIONS else script(api, request)
            if isinstance(response, bytes):
                connection.sendall(response)
            else:
                entity = build(response_type(api, version), response)
                connection.sendall(response_frame(entity, header.correlation_id))

    return serve


def frames(connection: socket.socket) -> Iterator[memoryview]:
    """Yield received frames without their sizes until the connection is closed."""
    while size := _exactly(connection, 4):
        yield memoryview(_exactly(connection, int.from_bytes(size, "big")))


def _exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return bytearray()
        data += more
    return data
