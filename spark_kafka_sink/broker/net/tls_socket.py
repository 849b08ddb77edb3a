"""A socket that never blocks and speaks TLS, with the methods of one that does not.

The handshake goes on with each read: as long as it lasts there is nothing to read, and a client
that leaves it in the middle costs its memory alone.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.broker.security.server_security import peer_principal
from spark_kafka_sink.common.errors import TlsError

if TYPE_CHECKING:
    from collections.abc import Sequence

WRITE_BYTES: Final = 64 * 1024
"""Bytes encrypted at a time: four of TLS's records."""
_ALERT: Final = b"\x15\x03\x03\x00\x02\x02\x50"
"""TLS's alert internal_error, as Java answers to what is not TLS."""


class TlsSocket:
    """The server's side of one connection.

    Args:
        client: not blocking; closed with this.
        context: the listener's.
        shared: where encrypted bytes are received; nobody else may use it meanwhile.
    """

    __slots__ = (
        "_accepted",
        "_incoming",
        "_is_refused",
        "_outbox",
        "_outgoing",
        "_shared",
        "_socket",
        "_tls",
        "is_ready",
        "principal",
    )

    def __init__(self, client: socket.socket, context: ssl.SSLContext, shared: memoryview) -> None:
        self._socket = client
        self._shared = shared
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._outbox = memoryview(b"")
        self._accepted = 0
        self._is_refused = False
        self.is_ready = False
        """Whether the handshake is done."""
        self.principal: str | None = None
        """Kafka's name for the client by its certificate; None without one."""

    def fileno(self) -> int:
        """See `socket.socket`."""
        return self._socket.fileno()

    @property
    def has_unsent(self) -> bool:
        """Whether encrypted bytes wait for the socket to take them."""
        return bool(self._outbox)

    @property
    def has_more(self) -> bool:
        """Whether there is more to read before the socket has more."""
        return self._incoming.pending > 0 or self._tls.pending() > 0

    def recv_into(self, room: memoryview) -> int:
        """Read what the client has sent; 0 at its end.

        Raises:
            BlockingIOError: there is nothing yet.
            TlsError: the handshake failed; `refuse` lets the client read why.
            OSError: the connection is lost.
        """
        if self._is_refused:
            return self._ignore()
        if not self.has_more:
            self._fill()
        if not self.is_ready:
            self._shake_hands()
        try:
            return self._tls.read(len(room), room)  # type: ignore[return-value]
        except ssl.SSLWantReadError:
            raise BlockingIOError from None
        except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
            return 0
        finally:
            self._push()

    def _ignore(self) -> int:
        if self._socket.recv_into(self._shared):
            raise BlockingIOError
        return 0

    def _fill(self) -> None:
        count = self._socket.recv_into(self._shared)
        if count:
            self._incoming.write(self._shared[:count])
        else:
            self._incoming.write_eof()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._push()
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            raise ConnectionResetError("it left in the middle of the TLS handshake") from None
        except ssl.SSLError as error:
            if not self._outgoing.pending:
                self._outgoing.write(_ALERT)
            self._push()
            raise TlsError(f"the TLS handshake failed: {_reason(error)}") from None
        self.is_ready = True
        self.principal = peer_principal(self._tls.getpeercert(binary_form=True))

    def _push(self) -> None:
        """Send what TLS itself has to say, as far as it goes."""
        if self._outgoing.pending:
            self._outbox = memoryview(bytes(self._outbox) + self._outgoing.read())
        if self._outbox:
            with contextlib.suppress(BlockingIOError):
                self._flush()

    def _flush(self) -> None:
        while self._outbox:
            self._outbox = self._outbox[self._socket.send(self._outbox) :]

    def send(self, data: bytes | memoryview) -> int:
        """Encrypt and send the first bytes; return how many.

        After a BlockingIOError it wants to be called again with the same bytes, as OpenSSL does.

        Raises:
            BlockingIOError: the socket takes no more.
            OSError: the connection is lost.
        """
        self._flush()
        if not self._accepted:
            self._accepted = self._tls.write(memoryview(data)[:WRITE_BYTES])
            self._outbox = memoryview(self._outgoing.read())
            self._flush()
        count, self._accepted = self._accepted, 0
        return count

    def sendmsg(self, parts: Sequence[memoryview]) -> int:
        """Send the first bytes of the parts; see `send`."""
        first = parts[0]
        if len(first) >= WRITE_BYTES or self._accepted:
            return self.send(first)
        together, size = [], 0
        for part in parts:
            together.append(part[: WRITE_BYTES - size])
            size += len(together[-1])
            if size == WRITE_BYTES:
                break
        return self.send(b"".join(together))

    def refuse(self) -> None:
        """Say that nothing more will come, and read on without looking at it."""
        self._is_refused = True
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Say goodbye to the client, and close the socket."""
        if self.is_ready and not self._outbox:
            with contextlib.suppress(OSError):
                self._tls.unwrap()
            self._push_goodbye()
        self._socket.close()

    def _push_goodbye(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.send(self._outgoing.read())


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's reason in words, such as "tlsv1 alert unknown ca"."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).lower().replace("_", " ")
