"""Proxies between clients and brokers, which inject faults into requests and responses."""

import asyncio
import logging
import re
import socket
import ssl
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from threading import Event, Lock, Thread
from typing import Any, TypeVar

from spark_kafka_sink.kafka.protocol.message_format import decode
from spark_kafka_sink.kafka.protocol.messages import read_request_header, read_request_start
from spark_kafka_sink.kafka.protocol.versions import ApiKey, request_type
from tools.torture.proxy_faults import FORGED, REWRITTEN, Fault, Schedule, is_success, refusal

T = TypeVar("T")
HOST = "127.0.0.1"
_LOGGER = logging.getLogger("spark_kafka_sink.torture")
_CONNECT_S = 2.0
_CALL_S = 10.0
_MAX_HOLD_S = 60.0


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all proxies, which runs in a separate thread."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True, name="proxies").start()
    return loop


def _call(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the event loop of the proxies, and return its result."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop()).result(_CALL_S)


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


@dataclass(slots=True)
class EndTxns:
    """Delays the commit of one transaction at all proxies of a cluster.

    The transaction is the `wanted`th whose ID matches `pattern` at its start. A transaction is
    identified by its transactional id, producer id and producer epoch.
    """

    pattern: str = ""
    occurrence: int = 0
    reached: Event = field(default_factory=Event)
    released: Event = field(default_factory=Event)
    _seen: set[tuple[str, int, int]] = field(default_factory=set)
    _lock: Lock = field(default_factory=Lock)

    def arm(self, pattern: str, occurrence: int) -> None:
        """Select the commit to delay; `occurrence` is 0 to delay none."""
        with self._lock:
            self.pattern, self.occurrence, self._seen = pattern, occurrence, set()
            self.reached.clear()
            self.released.clear()

    def wait_if_held(self, frame: bytes) -> None:
        """Block while the EndTxn request must be delayed."""
        transaction, commit = _parse(frame)
        if not self.occurrence or not commit or not re.match(self.pattern, transaction[0]):
            return
        with self._lock:
            self._seen.add(transaction)
            held = len(self._seen) >= self.occurrence
        if held and not self.released.is_set():
            self.reached.set()
            self.released.wait(_MAX_HOLD_S)


def _parse(frame: bytes) -> tuple[tuple[str, int, int], bool]:
    """Parse an EndTxn request.

    Return (transactional id, producer id, producer epoch), and True if the request is a commit.
    """
    header = read_request_header(frame)
    request, _ = decode(request_type(header.api_key, header.version), frame, header.body_offset)
    transaction = (request.transactional_id, request.producer_id, request.producer_epoch)
    return transaction, request.committed


class Proxy:
    """A listener for the clients of one broker; `schedule` can be changed between runs.

    The proxy can delay commits (`end_txns`), and it can be closed temporarily, which resets all
    connections. With `encryption`, it uses TLS on both sides.
    """

    def __init__(
        self,
        node: int,
        target_port: int,
        end_txns: EndTxns | None = None,
        encryption: Encryption | None = None,
    ) -> None:
        self.schedule: Schedule | None = None
        self.node = node
        self._target_port = target_port
        self._end_txns = end_txns or EndTxns()
        self._encryption = encryption
        self._is_open = True
        self._pipes: set[Pipe] = set()
        to_clients = encryption and encryption.to_clients
        listen = asyncio.start_server(self._serve, HOST, backlog=64, ssl=to_clients)
        self._server = _call(listen)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def log(self, text: str) -> None:
        """Log an event of this proxy."""
        _LOGGER.debug("PROXY broker=%d %s", self.node, text)

    def close_connections(self) -> None:
        """Close all connections."""
        _call(self._close_pipes())

    def cut(self) -> None:
        """Close all connections, and reset new connections until `heal`."""
        self._is_open = False
        self.close_connections()

    def heal(self) -> None:
        """Accept connections again."""
        self._is_open = True

    def close(self) -> None:
        """Stop listening, and close all connections."""
        _loop().call_soon_threadsafe(self._server.close)
        self.close_connections()

    async def _close_pipes(self) -> None:
        for pipe in list(self._pipes):
            pipe.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        secured = self._encryption
        if not self._is_open:
            _close(writer)
            return
        try:
            broker = asyncio.open_connection(
                HOST,
                self._target_port,
                ssl=secured and secured.to_broker,
                server_hostname=HOST if secured else None,
            )
            server = await asyncio.wait_for(broker, _CONNECT_S)
        except (OSError, TimeoutError):
            _close(writer, reset=True)
            return
        pipe = Pipe(self, reader, writer, *server)
        self._pipes.add(pipe)
        await asyncio.gather(pipe.upstream(), pipe.downstream())
        self._pipes.discard(pipe)

    async def before_request(self, frame: bytes) -> None:
        """Wait while a commit must be delayed."""
        if self._end_txns.occurrence and read_request_start(frame)[0] == ApiKey.END_TXN:
            await asyncio.to_thread(self._end_txns.wait_if_held, frame)


@dataclass(eq=False)
class Pipe:
    """A connection, on which requests and responses are forwarded."""

    proxy: Proxy
    from_client: asyncio.StreamReader
    to_client: asyncio.StreamWriter
    from_server: asyncio.StreamReader
    to_server: asyncio.StreamWriter
    pending: deque[PendingRequest] = field(default_factory=deque)
    silent: bool = False
    _responding: asyncio.Lock = field(default_factory=asyncio.Lock)
    _kept: bytes | None = None

    async def upstream(self) -> None:
        """Forward requests, one at a time, until the connection ends."""
        await self._forward(self.from_client, self._request)

    async def downstream(self) -> None:
        """Forward responses, one at a time, until the connection ends."""
        await self._forward(self.from_server, self._answer)

    async def _forward(
        self, reader: asyncio.StreamReader, handle: Callable[[bytes], Awaitable[None]]
    ) -> None:
        with suppress(OSError, EOFError):
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                if not self.silent:
                    await handle(frame)
        if not self.silent:
            self.close()

    def close(self, *, reset: bool = False) -> None:
        """Close both sides; with `reset`, reset the connection of the client."""
        _close(self.to_client, reset=reset)
        _close(self.to_server)

    async def _request(self, frame: bytes) -> None:
        await self.proxy.before_request(frame)
        header = read_request_header(frame)
        produce, schedule = header.api_key == ApiKey.PRODUCE, self.proxy.schedule
        fault = schedule.draw(self.proxy.node, produce=produce) if schedule else None
        if fault is not None:
            self.proxy.log(f"{fault} {ApiKey(header.api_key).name} #{header.correlation_id}")
        match fault:
            case Fault.LOSE_REQUEST:
                self.close()
                return
            case Fault.CUT_REQUEST:
                await _send(self.to_server, _sized(frame)[: 4 + len(frame) // 2])
                self.close()
                return
            case Fault.SWALLOW_REQUEST:
                self.silent = True
                return
            case Fault.DELAY_REQUEST:
                await self._delay()
        await self._pass_on(frame, PendingRequest(header.version, fault))

    async def _pass_on(self, frame: bytes, pending: PendingRequest) -> None:
        fault = pending.fault
        if fault in FORGED | REWRITTEN:
            code = self._schedule().code(self.proxy.node, fault)
            self.proxy.log(f"  code {code}")
            pending.forged = refusal(frame, code)
        async with self._responding:
            self.pending.append(pending)
            await self._deliver_forged()
        if fault not in FORGED:
            await _send(self.to_server, _sized(frame))

    async def _answer(self, frame: bytes) -> None:
        pending = self.pending.popleft() if self.pending else None
        fault = None if pending is None else pending.fault
        match fault:
            case Fault.LOSE_RESPONSE | Fault.RESET_RESPONSE:
                self.close(reset=fault is Fault.RESET_RESPONSE)
                return
            case Fault.CUT_RESPONSE:
                await _send(self.to_client, _sized(frame)[: 4 + len(frame) // 2])
                self.close()
                return
            case Fault.HALF_CLOSE:
                self.to_client.get_extra_info("socket").shutdown(socket.SHUT_WR)
                return
            case Fault.SWALLOW_RESPONSE:
                self.silent = True
                return
            case Fault.DELAY_RESPONSE:
                await self._delay()
        async with self._responding:
            await self._deliver(frame, pending)
            await self._deliver_forged()

    async def _deliver(self, frame: bytes, pending: PendingRequest | None) -> None:
        data = _sized(frame)
        fault = None if pending is None else pending.fault
        if pending is not None and pending.forged is not None and _may_rewrite(pending, frame):
            data = pending.forged
        if fault is Fault.DRIBBLE:
            for at in range(min(12, len(data))):
                await _send(self.to_client, data[at : at + 1])
                await asyncio.sleep(0.002)
            data = data[12:]
        if fault is Fault.SWAP_RESPONSES and self.pending and self._kept is None:
            self._kept = data
            return
        repeated = data if fault is Fault.REPEAT_RESPONSE else b""
        kept, self._kept = self._kept or b"", None
        await _send(self.to_client, data + repeated + kept)

    async def _deliver_forged(self) -> None:
        while self.pending and self.pending[0].fault in FORGED:
            forged = self.pending.popleft().forged
            assert forged is not None
            await _send(self.to_client, forged)

    async def _delay(self) -> None:
        await asyncio.sleep(self._schedule().delay(self.proxy.node))

    def _schedule(self) -> Schedule:
        schedule = self.proxy.schedule
        assert schedule is not None
        return schedule


def _may_rewrite(pending: PendingRequest, frame: bytes) -> bool:
    return pending.fault is not Fault.DUPLICATE or is_success(frame, pending.version)


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


def _close(writer: asyncio.StreamWriter, *, reset: bool = False) -> None:
    """Close or reset a connection without a TLS close_notify, as if the process had died."""
    if writer.transport.is_closing():
        return
    end = writer.get_extra_info("socket")
    with suppress(OSError):
        if reset:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            end.shutdown(socket.SHUT_RDWR)
    writer.transport.abort()
