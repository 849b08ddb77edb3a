"""Plaintext end of an encrypted connection, which lets a proxy read the traffic."""

from __future__ import annotations

import select
import socket
import ssl
from contextlib import suppress
from threading import Thread

_CHUNK = 65_536


class TlsRelay:
    """Encrypts what is written to `plain` for the peer of `raw`, and decrypts what comes from it.

    One thread handles both directions, because SSL objects are not thread-safe. The end of either
    side is passed on to the other without a TLS close_notify, as when a process dies.

    Args:
        raw: a connected socket, which the relay owns from now on.
        context: contains the certificate of this side, or the trusted authorities.
        server_name: name of the server at `raw`; None if the peer is a client.
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
        # Closing a side from another thread ends this one: select then raises ValueError.
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
