"""A TLS server in memory, and a transport that is connected to it."""

import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from typing_extensions import Buffer

from tools.support.certificates import CertificateAuthority


class Contexts:
    """The contexts of a server for `broker.test` and of a client that trusts it."""

    def __init__(self, folder: Path, host: str = "broker.test") -> None:
        authority = CertificateAuthority()
        self.server_pem = authority.server(host).write(folder)
        self.client_pem = authority.client().write(folder, "client")
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.load_cert_chain(self.server_pem)
        self.server.load_verify_locations(cadata=authority.certificate_pem)
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.client.load_verify_locations(cadata=authority.certificate_pem)


class Wire:
    """An in-memory transport: written bytes go to `sent`, bytes in `arriving` are read."""

    unsent = False
    wants_read = False
    cipher = ""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.arriving: deque[bytes] = deque()
        self.room: int | None = None
        """Bytes that are still taken, where that is limited."""
        self.error: OSError | None = None
        """Raised once there is no room, in place of taking nothing."""
        self.writes = 0
        self.is_closed = False

    def fileno(self) -> int:
        return 7

    def finish_connect(self) -> bool:
        return True

    def write(self, buffers: Sequence[Buffer]) -> int:
        data = b"".join(bytes(part) for part in buffers)
        if self.room is not None:
            if not self.room and self.error is not None:
                raise self.error
            data = data[: self.room]
            self.room -= len(data)
        self.writes += bool(data)
        self.sent += data
        return len(data)

    def read(self) -> bytes | None:
        return self.arriving.popleft() if self.arriving else None

    def close(self) -> None:
        self.is_closed = True


class TlsServer:
    """The other end of a wire; `step` is the number of bytes transferred at once."""

    def __init__(self, context: ssl.SSLContext, wire: Wire, step: int = 1 << 20) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._wire = wire
        self._step = step
        self.received = bytearray()
        self.records: list[int] = []
        """Bytes of each record that brought data."""
        self.is_open = False

    def transfer(self) -> None:
        """Read the client's bytes and put the response on the wire."""
        self._incoming.write(bytes(self._wire.sent))
        self._wire.sent.clear()
        try:
            self._work()
        finally:
            self.flush()

    def flush(self) -> None:
        data = self._outgoing.read()
        for at in range(0, len(data), self._step):
            self._wire.arriving.append(data[at : at + self._step])

    def _work(self) -> None:
        with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            if not self.is_open:
                self.tls.do_handshake()
                self.is_open = True
            while data := self.tls.read(1 << 20):
                self.received += data
                self.records.append(len(data))
