"""Proxies between a client and a real broker that record and modify the traffic."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.messages import read_request_header, read_response
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type, response_type
from tests.integration.security.scripted_broker import frames
from tests.support.servers import listening
from tools.support.frames import response_frame

Responses = Callable[[ApiKey, Any], Any]
"""Replaces a response of the broker."""
Requests = Callable[[ApiKey, bytes], bytes]
"""Replaces a request of the client (a frame without its size)."""

_CHUNK = 64 * 1024
_WAIT_S = 60


@dataclass(slots=True)
class Captured:
    """Traffic from clients, recorded by the threads of the proxy."""

    data: bytearray = field(default_factory=bytearray)
    """All bytes, connection after connection."""
    requests: list[tuple[ApiKey, Any]] = field(default_factory=list)
    """Decoded Kafka requests."""

    @property
    def apis(self) -> set[ApiKey]:
        """Return the APIs of the requests."""
        return {api for api, _ in self.requests}


def unchanged(_: ApiKey, message: Any) -> Any:
    return message


@contextmanager
def intercept(
    target: str, responses: Responses = unchanged, requests: Requests = unchanged
) -> Iterator[tuple[str, Captured]]:
    """Run a proxy for a listener without TLS, one request at a time; yield its address."""
    captured = Captured()

    def serve(client: socket.socket) -> None:
        with client, _connected(target) as broker:
            from_broker = frames(broker)
            for frame in frames(client):
                captured.data += frame
                header = read_request_header(frame)
                api, version = ApiKey(header.api_key), header.version
                request, _ = decode(request_type(api, version), frame, header.body_offset)
                captured.requests.append((api, request))
                changed = requests(api, bytes(frame))
                broker.sendall(len(changed).to_bytes(4, "big") + changed)
                if (received := next(from_broker, None)) is None:
                    return
                number, response = read_response(response_type(api, version), received)
                client.sendall(response_frame(responses(api, response), number))

    with listening(serve, host="localhost") as address:
        yield address, captured


@contextmanager
def intercept_bytes(
    target: str,
    to_client: Callable[[bytes], bytes] = bytes,
    to_broker: Callable[[bytes], bytes] = bytes,
) -> Iterator[tuple[str, Captured]]:
    """Run a proxy for any protocol; the functions replace the bytes of each `recv` call."""
    captured = Captured()

    def serve(client: socket.socket) -> None:
        with client, _connected(target) as broker:

            def forward_responses() -> None:
                with suppress(OSError):
                    while data := broker.recv(_CHUNK):
                        client.sendall(to_client(data))
                    client.shutdown(socket.SHUT_RDWR)

            thread = threading.Thread(target=forward_responses)
            thread.start()
            with suppress(OSError):
                while data := client.recv(_CHUNK):
                    captured.data += data
                    broker.sendall(to_broker(data))
            with suppress(OSError):
                broker.shutdown(socket.SHUT_RDWR)
            thread.join(_WAIT_S)

    with listening(serve, host="localhost") as address:
        yield address, captured


def remove_apis(response: Any, *apis: ApiKey) -> Any:
    """Return an ApiVersions response without the given APIs."""
    remaining = tuple(api for api in response.api_keys if api.api_key not in set(apis))
    return replace(response, api_keys=remaining)


def _connected(target: str) -> socket.socket:
    host, port = target.split(":")
    return socket.create_connection((host, int(port)), timeout=_WAIT_S)
