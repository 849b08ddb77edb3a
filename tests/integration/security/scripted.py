"""A server on loopback that follows the protocol as far as a script says, and no further."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import build, read_request_header, response_frame
from spark_kafka_sink.protocol.versions import (
    CLIENT_VERSIONS,
    ApiKey,
    request_type,
    response_type,
)

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator

Answer = Callable[[ApiKey, Any], "dict[str, Any] | bytes"]
"""From a request to the fields of its response, or to bytes in its place."""

API_VERSIONS = {
    "api_keys": [
        {"api_key": int(api), "min_version": span.lowest, "max_version": span.highest}
        for api, span in CLIENT_VERSIONS.items()
    ]
}


def following(answer: Answer) -> Callable[[socket.socket], None]:
    """Serves a connection: ApiVersions as a broker does, all else by `answer`."""

    def serve(connection: socket.socket) -> None:
        for frame in frames(connection):
            header = read_request_header(frame)
            api, version = ApiKey(header.api_key), header.version
            request, _ = decode(request_type(api, version), frame, header.body_offset)
            told = API_VERSIONS if api is ApiKey.API_VERSIONS else answer(api, request)
            if isinstance(told, bytes):
                connection.sendall(told)
            else:
                entity = build(response_type(api, version), told)
                connection.sendall(response_frame(entity, header.correlation_id))

    return serve


def frames(connection: socket.socket) -> Iterator[memoryview]:
    """What the other side sends, without the sizes, until it ends."""
    while size := _exactly(connection, 4):
        yield memoryview(_exactly(connection, int.from_bytes(size, "big")))


def _exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            return b""
        data += more
    return data
