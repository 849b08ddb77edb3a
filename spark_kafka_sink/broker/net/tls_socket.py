"""A non-blocking TLS socket with the methods of a plain non-blocking socket.

Reads also perform the handshake. No data is available until the handshake is complete. A client
that abandons its handshake uses only the memory of its connection.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING

from spark_kafka_sink.broker.security.server_tls import peer_principal
from spark_kafka_sink.common.errors import TlsError

if TYPE_CHECKING:
    from collections.abc import Sequence

_WRITE_BYTES = 64 * 1024
"""Maximum number of bytes that are encrypted at a time, which is four TLS records."""
_INTERNAL_ERROR_ALERT = b"\x15\x03\x03\x00\x02\x02\x50"
"""The TLS alert internal_error, which Java also sends if the input is not TLS."""


class TlsSocket:
    """The server side of a TLS connection.

    Args:
        client: the non-blocking socket; `close` also closes it.
        context: the listener's TLS context.
        shared: buffer for received encrypted bytes, which is used only during a call.
    """

    def __init__(self, client: socket.socket, context: ssl.SSLContext, shared: memoryview) -> None:
        self._socket = client
        self._shared = shared
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._outbox = memoryview(b"")
        self._accepted = 0
        self._is_rejected = False
        self.is_ready = False
        """True if the handshake is complete."""
        self.principal: str | None = None
        """Kafka principal name from the client's certificate, or None without a certificate."""

    def fileno(self) -> int:
        """See `socket.socket`."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """True if some encrypted bytes have not been sent yet."""
        return bool(self._outbox)

    @property
    def has_more(self) -> bool:
        """True if more data can be read without new bytes from the socket."""
        return self._incoming.pending > 0 or self._tls.pending() > 0

    def recv_into(self, room: memoryview) -> int:
        """Read what the client has sent; return 0 at the end of the stream.

        Raises:
            BlockingIOError: no data is available yet.
            TlsError: the handshake failed. Call `close_write`, so that the client can read why.
            OSError: the connection is lost.
        """
        if self._is_rejected:
            return self._discard_input()
        if not self.has_more:
            self._receive_encrypted()
        if not self.is_ready:
            self._handshake()
        try:
            return self._tls.read(len(room), room)  # type: ignore[return-value]
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        finally:
            self._send_pending()

    def send(self, data: bytes | memoryview) -> int:
        """Encrypt and send the first bytes. Return the number of sent bytes.

        After a BlockingIOError, the caller must pass the same bytes again, as OpenSSL requires.

        Raises:
            BlockingIOError: the socket accepts no more bytes.
            OSError: the connection is lost.
        """
        self._flush_outbox()
        if not self._accepted:
            self._accepted = self._tls.write(memoryview(data)[:_WRITE_BYTES])
            self._outbox = memoryview(self._outgoing.read())
            self._flush_outbox()
        count, self._accepted = self._accepted, 0
        return count

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        """Encrypt and send the first bytes of the parts; see `send`."""
        first = parts[0]
        if len(first) >= _WRITE_BYTES or self._accepted:
            return self.send(first)
        together, size = [], 0
        for part in parts:
            together.append(part[: _WRITE_BYTES - size])
            size += len(together[-1])
            if size == _WRITE_BYTES:
                break
        return self.send(b"".join(together))

    def close_write(self) -> None:
        """Close the write side of the connection, and ignore further input."""
        self._is_rejected = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Send TLS's close_notify if possible, and close the socket."""
        if self.is_ready and not self._outbox:
            with contextlib.suppress(OSError):
                self._tls.unwrap()
            self._send_close_notify()
        self._socket.close()

    def _discard_input(self) -> int:
        if self._socket.recv_into(self._shared):
            raise BlockingIOError
        return 0

    def _receive_encrypted(self) -> None:
        count = self._socket.recv_into(self._shared)
        if count:
            self._incoming.write(self._shared[:count])
        else:
            self._incoming.write_eof()

    def _handshake(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_pending()
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            raise ConnectionResetError("the client disconnected during the TLS handshake") from None
        except ssl.SSLError as error:
            if not self._outgoing.pending:
                self._outgoing.write(_INTERNAL_ERROR_ALERT)
            self._send_pending()
            raise TlsError(f"the TLS handshake failed: {_handshake_reason(error)}") from None
        self.is_ready = True
        self.principal = peer_principal(self._tls.getpeercert(binary_form=True))

    def _send_pending(self) -> None:
        """Send as many TLS messages (handshake, alerts) as the socket accepts."""
        if self._outgoing.pending:
            self._outbox = memoryview(bytes(self._outbox) + self._outgoing.read())
        if self._outbox:
            with contextlib.suppress(BlockingIOError):
                self._flush_outbox()

    def _flush_outbox(self) -> None:
        while self._outbox:
            self._outbox = self._outbox[self._socket.send(self._outbox) :]

    def _send_close_notify(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(self._outgoing.read())


def _handshake_reason(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in lower case, such as "tlsv1 alert unknown ca"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).lower().replace("_", " ")
