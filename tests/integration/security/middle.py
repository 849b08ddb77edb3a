"""Somebody between a client and a real broker, who reads what passes and changes what he likes."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import (
    read_request_header,
    read_response,
    response_frame,
)
from spark_kafka_sink.protocol.versions import ApiKey, request_type, response_type
from tests.integration.security.scripted import frames
from tests.integration.support.servers import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Answers = Callable[[ApiKey, Any], Any]
    """From a broker's answer to what the client gets in its place."""
    Requests = Callable[[ApiKey, bytes], bytes]
    """From a client's request, without its size, to what the broker gets in its place."""

_CHUNK = 64 * 1024
_WAIT_S = 60


@dataclass(slots=True)
class Overheard:
    """What has come from clients, written by the threads that serve them."""

    data: bytearray = field(default_factory=bytearray)
    """Every byte, of one connection after another."""
    requests: list[tuple[ApiKey, Any]] = field(default_factory=list)
    """Those of Kafka's protocol, decoded."""

    @property
    def apis(self) -> set[ApiKey]:
        """What was asked."""
        return {api for api, _ in self.requests}


def as_it_is(_: ApiKey, passed: Any) -> Any:
    """Changes nothing."""
    return passed


@contextmanager
def between(
    target: str, answers: Answers = as_it_is, requests: Requests = as_it_is
) -> Iterator[tuple[str, Overheard]]:
    """An address that leads to a broker without TLS, one request and its answer after the other."""
    heard = Overheard()

    def serve(client: socket.socket) -> None:
        with client, _connected(target) as broker:
            from_broker = frames(broker)
            for frame in frames(client):
                heard.data += frame
                header = read_request_header(frame)
                api, version = ApiKey(header.api_key), header.version
                request, _ = decode(request_type(api, version), frame, header.body_offset)
                heard.requests.append((api, request))
                changed = requests(api, bytes(frame))
                broker.sendall(len(changed).to_bytes(4, "big") + changed)
                if (answer := next(from_broker, None)) is None:
                    return
                number, told = read_response(response_type(api, version), answer)
                client.sendall(response_frame(answers(api, told), number))

    with listening(serve, host="localhost") as address:
        yield address, heard


@contextmanager
def wiretap(
    target: str,
    to_client: Callable[[bytes], bytes] = bytes,
    to_broker: Callable[[bytes], bytes] = bytes,
) -> Iterator[tuple[str, Overheard]]:
    """The same for bytes of any kind; each function is given what has come at once."""
    heard = Overheard()

    def serve(client: socket.socket) -> None:
        with client, _connected(target) as broker:

            def answer() -> None:
                with suppress(OSError):
                    while data := broker.recv(_CHUNK):
                        client.sendall(to_client(data))
                    client.shutdown(socket.SHUT_RDWR)

            back = threading.Thread(target=answer)
            back.start()
            with suppress(OSError):
                while data := client.recv(_CHUNK):
                    heard.data += data
                    broker.sendall(to_broker(data))
            with suppress(OSError):
                broker.shutdown(socket.SHUT_RDWR)
            back.join(_WAIT_S)

    with listening(serve, host="localhost") as address:
        yield address, heard


def without(answer: Any, *apis: ApiKey) -> Any:
    """An answer to ApiVersions that does not name some."""
    left = tuple(each for each in answer.api_keys if each.api_key not in set(apis))
    return replace(answer, api_keys=left)


def _connected(target: str) -> socket.socket:
    host, port = target.split(":")
    return socket.create_connection((host, int(port)), timeout=_WAIT_S)
