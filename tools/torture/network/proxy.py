"""A TCP proxy in front of one broker that reads Kafka's frames and lets faults happen to them."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import TYPE_CHECKING

from spark_kafka_sink.protocol.messages import read_request_header
from spark_kafka_sink.protocol.versions import ApiKey
from tools.torture.network.faults import FORGED, REWRITTEN, Fault, Schedule
from tools.torture.network.forging import is_success, refusal
from tools.torture.network.tls_relay import TlsRelay

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

HOST = "127.0.0.1"
_UNSPECIFIED = struct.pack("H14x", socket.AF_UNSPEC)
_LIBC = ctypes.CDLL(None)
_CONNECT_S = 2.0
_ACCEPT_AGAIN_S = 0.05
_SWALLOW = frozenset({Fault.SWALLOW_REQUEST, Fault.SWALLOW_RESPONSE})


@dataclass(slots=True)
class Asked:
    """A request that the client waits for; `forged` answers it without the broker."""

    version: int
    fault: Fault | None
    forged: bytes | None = None


@dataclass(frozen=True, slots=True)
class Encryption:
    """What a proxy shows to clients, and how it checks the broker."""

    to_clients: ssl.SSLContext
    to_broker: ssl.SSLContext


class Proxy:
    """Listens for clients of one broker; `schedule` may be changed between runs.

    With `encryption` it speaks TLS on both sides.
    """

    def __init__(
        self, node: int, target_port: int, port: int = 0, encryption: Encryption | None = None
    ) -> None:
        self.schedule: Schedule | None = None
        self.node = node
        self._target = (HOST, target_port)
        self._encryption = encryption
        self._listener = socket.create_server((HOST, port), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._pipes: set[Pipe] = set()
        self._closed = False
        self.tell: Callable[[str], None] | None = None
        Thread(target=self._accept, daemon=True, name=f"proxy-{node}").start()

    def say(self, text: str) -> None:
        """Tell whoever wants to know what happens."""
        tell = self.tell
        if tell is not None:
            tell(f"PROXY broker={self.node} {text}")

    def cut_all(self) -> None:
        """Close every connection."""
        for pipe in list(self._pipes):
            pipe.close()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut_all()

    def forget(self, pipe: Pipe) -> None:
        """A connection is closed."""
        self._pipes.discard(pipe)

    def draw(self, *, produce: bool) -> Fault | None:
        """What happens to the next request."""
        schedule = self.schedule
        return None if schedule is None else schedule.draw(self.node, produce=produce)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError as error:  # of this connection alone, unless the listener is closed
                self.say(f"accept failed: {error}")
                time.sleep(_ACCEPT_AGAIN_S)
                continue
            Thread(target=self._open, args=(client,), daemon=True).start()

    def _open(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, timeout=_CONNECT_S)
        except OSError:
            _abort(client)
            client.close()
            return
        server.settimeout(None)
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pipe = self._pipe(client, server)
        self._pipes.add(pipe)
        Thread(target=pipe.upstream, daemon=True).start()
        Thread(target=pipe.downstream, daemon=True).start()

    def _pipe(self, client: socket.socket, server: socket.socket) -> Pipe:
        if self._encryption is None:
            return Pipe(self, client, client, server)
        decrypted = TlsRelay(client, self._encryption.to_clients).plain
        encrypted = TlsRelay(server, self._encryption.to_broker, HOST).plain
        return Pipe(self, client, decrypted, encrypted)


@dataclass(eq=False)
class Pipe:
    """One connection: requests go up to the broker, answers come down to the client.

    `raw` is the client's socket; `client` is the same, or what it says once it is decrypted.
    """

    proxy: Proxy
    raw: socket.socket
    client: socket.socket
    server: socket.socket
    asked: deque[Asked] = field(default_factory=deque)
    dead: bool = False
    silent: bool = False
    changed: Condition = field(default_factory=Condition)
    _kept: bytes | None = None

    def upstream(self) -> None:
        """Until the end: one request after the other."""
        with contextlib.suppress(OSError):
            while (frame := _read_frame(self.client)) is not None:
                if not self.silent:
                    self._request(frame)
        if not self.silent:
            self.close()

    def downstream(self) -> None:
        """Until the end: one answer after the other."""
        with contextlib.suppress(OSError):
            while (frame := _read_frame(self.server)) is not None:
                if not self.silent:
                    self._answer(frame)
        if not self.silent:
            self.close()

    def close(self, *, reset: bool = False) -> None:
        """End both sides."""
        if self.dead:
            return
        self.dead = True
        if reset:
            _abort(self.raw)
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self.proxy.forget(self)

    def _request(self, frame: bytes) -> None:
        header = read_request_header(frame)
        produce = header.api_key == ApiKey.PRODUCE
        fault = self.proxy.draw(produce=produce)
        if fault is not None:
            self.proxy.say(f"{fault} {ApiKey(header.api_key).name} #{header.correlation_id}")
        match fault:
            case Fault.LOSE_REQUEST:
                self.close()
                return
            case Fault.CUT_REQUEST:
                self.server.sendall((_sized(frame))[: 4 + len(frame) // 2])
                self.close()
                return
            case Fault.SWALLOW_REQUEST:
                self.silent = True
                return
            case Fault.DELAY_REQUEST:
                time.sleep(self._delay())
        self._pass_on(frame, Asked(header.version, fault))

    def _pass_on(self, frame: bytes, asked: Asked) -> None:
        fault = asked.fault
        if fault in FORGED | REWRITTEN:
            code = self._schedule().code(self.proxy.node, fault)
            self.proxy.say(f"  code {code}")
            asked.forged = refusal(frame, code)
        with self.changed:
            self.asked.append(asked)
            if fault in FORGED:
                self._deliver_forged()
        if fault not in FORGED:
            self.server.sendall(_sized(frame))

    def _answer(self, frame: bytes) -> None:
        with self.changed:
            asked = self.asked.popleft() if self.asked else None
        fault = None if asked is None else asked.fault
        match fault:
            case Fault.LOSE_RESPONSE | Fault.RESET_RESPONSE:
                self.close(reset=fault is Fault.RESET_RESPONSE)
                return
            case Fault.CUT_RESPONSE:
                self.client.sendall(_sized(frame)[: 4 + len(frame) // 2])
                self.close()
                return
            case Fault.HALF_CLOSE:
                self.client.shutdown(socket.SHUT_WR)
                return
            case Fault.SWALLOW_RESPONSE:
                self.silent = True
                return
            case Fault.DELAY_RESPONSE:
                time.sleep(self._delay())
        with self.changed:
            self._deliver(frame, asked)
            self._deliver_forged()

    def _deliver(self, frame: bytes, asked: Asked | None) -> None:
        data = _sized(frame)
        fault = None if asked is None else asked.fault
        if asked is not None and asked.forged is not None and _may_rewrite(asked, frame):
            data = asked.forged
        if fault is Fault.DRIBBLE:
            for at in range(min(12, len(data))):
                self.client.sendall(data[at : at + 1])
                time.sleep(0.002)
            data = data[12:]
        if fault is Fault.SWAP_RESPONSES and self.asked and self._kept is None:
            self._kept = data
            return
        self.client.sendall(data)
        if fault is Fault.REPEAT_RESPONSE:
            self.client.sendall(data)
        if self._kept is not None:
            self.client.sendall(self._kept)
            self._kept = None

    def _deliver_forged(self) -> None:
        while self.asked and self.asked[0].fault in FORGED:
            forged = self.asked.popleft().forged
            assert forged is not None
            self.client.sendall(forged)

    def _delay(self) -> float:
        return self._schedule().delay(self.proxy.node)

    def _schedule(self) -> Schedule:
        schedule = self.proxy.schedule
        assert schedule is not None
        return schedule


def _may_rewrite(asked: Asked, frame: bytes) -> bool:
    return asked.fault is not Fault.DUPLICATE or is_success(frame, asked.version)


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def _read_frame(end: socket.socket) -> bytes | None:
    """The next frame without its size; None at the end of the stream, also in mid-frame."""
    size = _read(end, 4)
    return None if size is None else _read(end, int.from_bytes(size, "big"))


def _read(end: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        piece = end.recv(count - len(data))
        if not piece:
            return None
        data += piece
    return bytes(data)


def _abort(end: socket.socket) -> None:
    """Reset the connection, whoever is reading from it: connecting to nowhere does that."""
    _LIBC.connect(end.fileno(), _UNSPECIFIED, len(_UNSPECIFIED))
