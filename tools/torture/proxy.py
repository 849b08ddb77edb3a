"""Faults that a proxy injects into requests and responses."""

from __future__ import annotations

import contextlib
import ctypes
import re
import select
import socket
import ssl
import struct
import time
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from threading import Condition, Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from spark_kafka_sink.protocol.codec import decode
from spark_kafka_sink.protocol.messages import (
    build,
    read_request_header,
    read_request_start,
    read_response,
    response_frame,
)
from spark_kafka_sink.protocol.versions import ApiKey, request_type, response_type

if TYPE_CHECKING:
    from collections.abc import Callable


class Fault(StrEnum):
    """The proxy's action on a request or its response."""

    LOSE_REQUEST = "lose_request"
    """The connection is closed before the broker receives the request."""
    CUT_REQUEST = "cut_request"
    """The broker receives half of the request, then the connection is closed."""
    SWALLOW_REQUEST = "swallow_request"
    """The request and all later traffic in both directions are silently dropped."""
    LOSE_RESPONSE = "lose_response"
    """The broker applies the request; the connection is closed before the client's response."""
    RESET_RESPONSE = "reset_response"
    """Like LOSE_RESPONSE, but the connection is reset."""
    CUT_RESPONSE = "cut_response"
    """The client receives half of the response, then the connection is closed."""
    SWALLOW_RESPONSE = "swallow_response"
    """The broker applies the request; the response and all later traffic are dropped."""
    HALF_CLOSE = "half_close"
    """The broker applies the request; only the direction to the client is closed."""
    DELAY_REQUEST = "delay_request"
    DELAY_RESPONSE = "delay_response"
    DRIBBLE = "dribble"
    """The first bytes of the response arrive one at a time."""
    SWAP_RESPONSES = "swap_responses"
    """Two responses arrive in the wrong order."""
    REPEAT_RESPONSE = "repeat_response"
    """The same response arrives twice."""
    REFUSE = "refuse"
    """The broker does not receive the request; the client receives an unambiguous error."""
    DENY = "deny"
    """The broker applies the request; the client receives an ambiguous error."""
    DUPLICATE = "duplicate"
    """The broker applies the request; the client receives DUPLICATE_SEQUENCE_NUMBER."""
    FORGET = "forget"
    """The broker does not receive the request; the client receives UNKNOWN_PRODUCER_ID."""


FORGED = frozenset({Fault.REFUSE, Fault.FORGET})
REWRITTEN = frozenset({Fault.DENY, Fault.DUPLICATE})
PRODUCE_ONLY = FORGED | REWRITTEN
LOSSES = frozenset(
    {
        Fault.LOSE_REQUEST,
        Fault.CUT_REQUEST,
        Fault.SWALLOW_REQUEST,
        Fault.LOSE_RESPONSE,
        Fault.RESET_RESPONSE,
        Fault.CUT_RESPONSE,
        Fault.SWALLOW_RESPONSE,
        Fault.HALF_CLOSE,
        Fault.SWAP_RESPONSES,
        Fault.REPEAT_RESPONSE,
    }
)
DELAYS = frozenset({Fault.DELAY_REQUEST, Fault.DELAY_RESPONSE, Fault.DRIBBLE})

REFUSALS = (3, 5, 6, 9, 13, 19, 56, 72, 74)
DENIALS = (6, 7, 20)
"""With acks=all, a leader that steps down can return error 6 after appending the records."""
DUPLICATE_SEQUENCE = 46
UNKNOWN_PRODUCER_ID = 59


@dataclass(kw_only=True)
class Schedule:
    """Draws faults. `rate` is the probability for Produce; a quarter of it is used otherwise."""

    seed: int
    kinds: tuple[Fault, ...]
    rate: float
    longest_delay: float = 0.3
    seen: Counter[str] = field(default_factory=Counter)
    active: bool = True
    _lock: Lock = field(default_factory=Lock)
    _random: dict[int, Random] = field(default_factory=dict)

    def draw(self, node: int, *, produce: bool) -> Fault | None:
        """Return the fault for the next request to a broker, or None."""
        with self._lock:
            random = self._of(node)
            chance, pick = random.random(), random.random()
            rate = self.rate if produce else self.rate / 4
            if not self.active or not self.kinds or chance >= rate:
                return None
            fault = self.kinds[int(pick * len(self.kinds))]
            if fault in PRODUCE_ONLY and not produce:
                return None
            self.seen[fault.value] += 1
            return fault

    def delay(self, node: int) -> float:
        """Return the delay of a slow response in seconds."""
        with self._lock:
            return self._of(node).uniform(0.01, self.longest_delay)

    def code(self, node: int, fault: Fault) -> int:
        """Return an error code that the client receives for a fault."""
        if fault is Fault.DUPLICATE:
            return DUPLICATE_SEQUENCE
        if fault is Fault.FORGET:
            return UNKNOWN_PRODUCER_ID
        with self._lock:
            return self._of(node).choice(REFUSALS if fault is Fault.REFUSE else DENIALS)

    def heal(self) -> None:
        """Stop injecting faults."""
        self.active = False

    def _of(self, node: int) -> Random:
        return self._random.setdefault(node, Random(f"{self.seed}/{node}"))


def refusal(frame: bytes, code: int) -> bytes:
    """Return a response frame with an error for each partition of a Produce request."""
    header = read_request_header(frame)
    kind = request_type(ApiKey.PRODUCE, header.version)
    request, _ = decode(kind, frame, header.body_offset)
    answer = {"responses": [_topic(topic, code) for topic in request.topic_data]}
    entity = build(response_type(ApiKey.PRODUCE, header.version), answer)
    return response_frame(entity, header.correlation_id)


def _topic(topic: Any, code: int) -> dict[str, Any]:
    entries = [
        {
            "index": part.index,
            "error_code": ErrorCode(code),
            "base_offset": -1,
            "log_append_time": None,
            "log_start_offset": -1,
        }
        for part in topic.partition_data
    ]
    named = {name: getattr(topic, name) for name in ("name", "topic_id") if hasattr(topic, name)}
    return {**named, "partition_responses": entries}


def is_success(frame: bytes, version: int) -> bool:
    """Return True if a response to a Produce request contains no errors."""
    _, answer = read_response(response_type(ApiKey.PRODUCE, version), frame)
    return all(
        part.error_code == ErrorCode.none
        for topic in answer.responses
        for part in topic.partition_responses
    )


HOST = "127.0.0.1"
_UNSPECIFIED = struct.pack("H14x", socket.AF_UNSPEC)
_LIBC = ctypes.CDLL(None)
_CONNECT_S = 2.0
_ACCEPT_AGAIN_S = 0.05
_SWALLOW = frozenset({Fault.SWALLOW_REQUEST, Fault.SWALLOW_RESPONSE})


@dataclass(slots=True)
class PendingRequest:
    """A request whose response is outstanding; `forged` is a response made by the proxy."""

    version: int
    fault: Fault | None
    forged: bytes | None = None


@dataclass(frozen=True, slots=True)
class Encryption:
    """TLS settings of a proxy: its certificate, and how it verifies the broker."""

    to_clients: ssl.SSLContext
    to_broker: ssl.SSLContext


class Proxy:
    """A listener for the clients of one broker; `schedule` can be changed between runs.

    With `encryption`, the proxy uses TLS on both sides.
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
        """Log an event, if a logger is set."""
        tell = self.tell
        if tell is not None:
            tell(f"PROXY broker={self.node} {text}")

    def close_connections(self) -> None:
        """Close all connections."""
        for pipe in list(self._pipes):
            pipe.close()

    def close(self) -> None:
        """Stop listening."""
        self._closed = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.close_connections()

    def forget(self, pipe: Pipe) -> None:
        """Remove a closed connection."""
        self._pipes.discard(pipe)

    def draw(self, *, produce: bool) -> Fault | None:
        """Return the fault for the next request, or None."""
        schedule = self.schedule
        return None if schedule is None else schedule.draw(self.node, produce=produce)

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError as error:  # Affects only this connection, unless the listener is closed.
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
    """A connection, on which requests and responses are forwarded.

    `raw` is the client's socket; `client` is the same socket, or the plaintext end of a TLS relay.
    """

    proxy: Proxy
    raw: socket.socket
    client: socket.socket
    server: socket.socket
    asked: deque[PendingRequest] = field(default_factory=deque)
    dead: bool = False
    silent: bool = False
    changed: Condition = field(default_factory=Condition)
    _kept: bytes | None = None

    def upstream(self) -> None:
        """Forward requests, one at a time, until the connection ends."""
        with contextlib.suppress(OSError):
            while (frame := _read_frame(self.client)) is not None:
                if not self.silent:
                    self._request(frame)
        if not self.silent:
            self.close()

    def downstream(self) -> None:
        """Forward responses, one at a time, until the connection ends."""
        with contextlib.suppress(OSError):
            while (frame := _read_frame(self.server)) is not None:
                if not self.silent:
                    self._answer(frame)
        if not self.silent:
            self.close()

    def close(self, *, reset: bool = False) -> None:
        """Close both sides."""
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
        self._pass_on(frame, PendingRequest(header.version, fault))

    def _pass_on(self, frame: bytes, asked: PendingRequest) -> None:
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

    def _deliver(self, frame: bytes, asked: PendingRequest | None) -> None:
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


def _may_rewrite(asked: PendingRequest, frame: bytes) -> bool:
    return asked.fault is not Fault.DUPLICATE or is_success(frame, asked.version)


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def _read_frame(end: socket.socket) -> bytes | None:
    """Return the next frame without its size, or None at the end of the stream."""
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
    """Reset a connection by connecting its socket to an unspecified address.

    This works even while another thread reads from the socket.
    """
    _LIBC.connect(end.fileno(), _UNSPECIFIED, len(_UNSPECIFIED))


_MAX_HOLD_S = 60.0


@dataclass(slots=True)
class EndTxns:
    """Delays the commit of one transaction at all gates of a cluster.

    The transaction is the `wanted`th whose ID matches `pattern` at its start. A transaction is
    identified by its transactional ID, producer ID and producer epoch.
    """

    pattern: str = ""
    wanted: int = 0
    reached: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)
    _seen: set[tuple[str, int, int]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def arm(self, pattern: str, wanted: int) -> None:
        """Select the commit to delay; `wanted` is 0 to delay none."""
        with self._lock:
            self.pattern, self.wanted, self._seen = pattern, wanted, set()
            self.reached.clear()
            self.released.clear()

    def wait_if_held(self, frame: bytes) -> None:
        """Block while the request must be delayed."""
        api_key, _, _ = read_request_start(frame)
        if not self.wanted or api_key != ApiKey.END_TXN:
            return
        transaction, commit = _parse(frame)
        if not commit or not re.match(self.pattern, transaction[0]):
            return
        with self._lock:
            self._seen.add(transaction)
            held = len(self._seen) >= self.wanted
        if held and not self.released.is_set():
            self.reached.set()
            self.released.wait(_MAX_HOLD_S)


class HoldingPipe(Pipe):
    """A connection whose commits can be delayed."""

    end_txns: EndTxns

    def _pass_on(self, frame: bytes, *rest: object) -> None:
        self.end_txns.wait_if_held(frame)
        super()._pass_on(frame, *rest)  # type: ignore[arg-type]


class Gate(Proxy):
    """A proxy that can be closed, which resets existing and new connections."""

    def __init__(self, node: int, target_port: int, end_txns: EndTxns) -> None:
        self._shut = False
        self._end_txns = end_txns
        super().__init__(node, target_port)

    def close_gate(self) -> None:
        """Close the gate."""
        self._shut = True
        self.close_connections()

    def open_gate(self) -> None:
        """Open the gate again."""
        self._shut = False

    def _open(self, client: socket.socket) -> None:
        if self._shut:
            client.close()
            return
        super()._open(client)

    def _pipe(self, client: socket.socket, server: socket.socket) -> Pipe:
        pipe = HoldingPipe(self, client, client, server)
        pipe.end_txns = self._end_txns
        return pipe


def _parse(frame: bytes) -> tuple[tuple[str, int, int], bool]:
    """Parse an EndTxn request.

    Return (transactional ID, producer ID, producer epoch), and True if the request is a commit.
    """
    header = read_request_header(frame)
    request, _ = decode(request_type(header.api_key, header.version), frame, header.body_offset)
    transaction = (request.transactional_id, request.producer_id, request.producer_epoch)
    return transaction, request.committed


_CHUNK = 65_536


class TlsRelay:
    """Relays data between the plaintext socket `plain` and the TLS peer of `raw`.

    One thread handles both directions, because SSL objects are not thread-safe. If one side is
    closed, the other side is also closed, without a TLS close_notify, as if a process had died.

    Args:
        raw: a connected socket, which the relay closes.
        context: contains the certificate of this side, or the trusted authorities.
        server_name: name of the server at `raw`, or None if the peer is a client.
    """

    def __init__(
        self, raw: socket.socket, context: ssl.SSLContext, server_name: str | None = None
    ) -> None:
        self.plain, self._own = socket.socketpair()
        self._raw = raw
        self._from_peer, self._to_peer = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._from_peer, self._to_peer, server_name is None, server_name
        )
        self._handshake_done = False
        self._ended: set[socket.socket] = set()
        Thread(target=self._run, daemon=True, name="tls-relay").start()

    def _run(self) -> None:
        # If another thread closes a socket, select raises ValueError, which ends this thread.
        with suppress(OSError, ValueError):
            self._do_handshake()
            while len(self._ended) < 2:
                self._pass_on(select.select(self._open(), [], [])[0])
        for end in (self._raw, self._own):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _open(self) -> list[socket.socket]:
        return [end for end in (self._raw, self._own) if end not in self._ended]

    def _do_handshake(self) -> None:
        while not self._handshake_done:
            try:
                self._tls.do_handshake()
                self._handshake_done = True
            except ssl.SSLWantReadError:
                self._flush()
                self._take()
        self._decrypt()  # Handle data received with the peer's last handshake message.

    def _pass_on(self, readable: list[socket.socket]) -> None:
        if self._own in readable:
            data = self._own.recv(_CHUNK)
            if data:
                self._tls.write(data)
                self._flush()
            else:
                self._end(self._own, self._raw)
        if self._raw in readable:
            self._take()
            self._decrypt()

    def _take(self) -> None:
        data = self._raw.recv(_CHUNK)
        if data:
            self._from_peer.write(data)
        elif not self._handshake_done:
            raise ConnectionResetError
        else:
            self._end(self._raw, self._own)

    def _decrypt(self) -> None:
        with suppress(ssl.SSLWantReadError):
            while data := self._tls.read(_CHUNK):
                self._own.sendall(data)
        self._flush()  # A new session ticket or key update can require a response.

    def _flush(self) -> None:
        if self._to_peer.pending:
            self._raw.sendall(self._to_peer.read())

    def _end(self, of: socket.socket, towards: socket.socket) -> None:
        self._ended.add(of)
        towards.shutdown(socket.SHUT_WR)
