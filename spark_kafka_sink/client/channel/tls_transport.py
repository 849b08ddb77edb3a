"""TLS over another transport (RFC 5246, RFC 8446): OpenSSL works in memory and never waits.

Bytes are moved between OpenSSL's buffers and the transport below, so that the selector waits for
the socket alone, whichever way OpenSSL wants to go on. What is written leaves in full records:
small buffers are joined, large ones are encrypted where they lie.
Source: ``SslTransportLayer``.
"""

from __future__ import annotations

import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.client.channel.transport import Transport

RECORD = 16 * 1024
"""Bytes of plaintext that one record takes at most."""
WINDOW = 4 * RECORD
"""Bytes of plaintext that are encrypted before the socket is asked to take them.

More is not faster: malloc maps blocks of 128 KiB and more anew each time.
"""
TURN = 256 * 1024
"""Encrypted bytes that are received until the caller has another turn.

A peer may send records for ever that hold nothing for the caller: session tickets, new keys.
"""
MOST_UNSENT = 4 * WINDOW
"""Bytes that OpenSSL may hold for the socket while more is read; `write` leaves fewer.

OpenSSL answers some messages, also those of a peer who takes no answers.
"""


class TlsTransport:
    """One encrypted connection over a transport that is connected; used by one thread.

    `write` counts bytes once the socket has all of the records that they are in: until then the
    caller has to offer them again. A request ends with a buffer, so that none counts as written
    that the broker can't decrypt, and none as not written that it can.

    Args:
        inner: moves the encrypted bytes, and is closed with this one.
        context: the client's.
        host: the name or the address that the broker's certificate must be for.

    Raises:
        OSError: nothing can have a certificate for this host.
    """

    def __init__(self, inner: Transport, context: ssl.SSLContext, host: str) -> None:
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        name = host.strip("[]").removesuffix(".")
        try:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        except ValueError as error:
            raise OSError(f"TLS takes no host name like {host!r}: {error}") from error
        self._unsent = memoryview(b"")
        """Taken from `_outgoing`, and not yet taken by the transport below."""
        self._taken = 0
        """Bytes taken from `_outgoing` so far."""
        self._sent = 0
        """Bytes of these that the transport below has taken."""
        self._encrypted: deque[tuple[int, int]] = deque()
        """What `write` has not counted yet: the end among the encrypted bytes, bytes of plaintext.

        Either one record, or records of one buffer: a request can only end in the last one.
        """
        self._error: OSError | None = None
        """What has ended the connection in a call of `write` that had bytes to count."""
        self._received = 0
        """Encrypted bytes received in this turn."""
        self.wants_read = False
        """See `Transport`: a message of the peer's own, such as a session ticket, has come in part.

        OpenSSL encrypts nothing before the rest of it is here.
        """

    def fileno(self) -> int:
        """The socket's descriptor."""
        return self._inner.fileno()

    @property
    def unsent(self) -> bool:
        """Whether encrypted bytes wait for the socket."""
        return bool(self._unsent) or self._outgoing.pending > 0

    @property
    def cipher(self) -> str:
        """What was agreed on, such as "TLSv1.3 TLS_AES_256_GCM_SHA384"; "" before that."""
        cipher = self._tls.cipher()
        return f"{self._tls.version()} {cipher[0]}" if cipher else ""

    def finish_connect(self) -> bool:
        """Go on with the handshake; whether it is done.

        Raises:
            OSError: the handshake failed, or the connection is gone.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send()
                if not self._receive_more():
                    return False
            except ssl.SSLError:
                self._send_own()
                raise
            else:
                self._send()
                return True

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt and write, one window after another, until the socket is full.

        Returns the bytes that have left whole; those after them may be encrypted already, and
        must come first in the next call.

        Raises:
            OSError: the connection is gone; by the next call, where bytes had left before that.
        """
        if self._error is not None:
            raise self._error
        try:
            self._encrypt_and_send(buffers)
        except OSError as error:
            if not (written := self._count_written()):
                raise
            self._error = error
            return written
        return self._count_written()

    def read(self) -> bytes | None:
        """At most one record's bytes: None if there are none yet, empty at the stream's end.

        None also at the end of a turn; then OpenSSL holds no bytes that the selector does not see.
        That the stream ends without close_notify is not an error, as Kafka's frames have lengths.

        Raises:
            OSError: an alert has come, or the connection is gone.
        """
        while True:
            if self._tls.pending() or self._incoming.pending:
                with suppress(ssl.SSLWantReadError):
                    return self._decrypt()
            if self._outgoing.pending > MOST_UNSENT:
                raise ConnectionAbortedError(
                    "the server makes TLS answer again and again, and takes no answers"
                )
            if not (data := self._receive()):
                self._send_own()
                return data

    def close(self) -> None:
        """Say goodbye if the socket takes it at once, and close the transport below."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        self._send_own()
        self._inner.close()

    def _receive_more(self) -> bool:
        """Take what has arrived for the handshake, if anything has."""
        data = self._receive()
        if data == b"":
            raise ConnectionResetError("the server closed the connection in the TLS handshake")
        return data is not None

    def _receive(self) -> bytes | None:
        """Give OpenSSL what has arrived: None if there is nothing, or the turn is over."""
        data = self._inner.read() if self._received < TURN else None
        if data is None:
            self._received = 0
            return None
        self._received += len(data)
        self._incoming.write(data)
        self.wants_read = False
        return data

    def _decrypt(self) -> bytes:
        try:
            return self._tls.read(RECORD)
        except ssl.SSLZeroReturnError:
            return b""
        except ssl.SSLWantReadError:
            raise
        except ssl.SSLError:
            self._send_own()
            raise

    def _encrypt_and_send(self, buffers: Sequence[Buffer]) -> None:
        if not self._send() or self._encrypted:
            return
        for chunk in _chunks(buffers):
            if not self._seal(chunk):
                break
            if self._outgoing.pending >= WINDOW and not self._send():
                return
        self._send()

    def _seal(self, data: Buffer) -> bool:
        """Encrypt; whether OpenSSL has taken it."""
        try:
            count = self._tls.write(data)
        except ssl.SSLWantReadError:
            self.wants_read = True
            return False
        self._encrypted.append((self._taken + self._outgoing.pending, count))
        return True

    def _send(self) -> bool:
        """Write what is encrypted; whether the socket has taken all of it."""
        while self.unsent:
            if not self._unsent:
                self._unsent = memoryview(self._outgoing.read())
                self._taken += self._unsent.nbytes
            count = self._inner.write((self._unsent,))
            if not count:
                return False
            self._sent += count
            self._unsent = self._unsent[count:]
        return True

    def _send_own(self) -> None:
        """Send what OpenSSL has to say for itself, such as an alert; the broker may be gone.

        Not where it lies behind bytes of the caller's: no request may leave without being counted.
        """
        if not self._encrypted:
            with suppress(OSError):
                self._send()

    def _count_written(self) -> int:
        written = 0
        while self._encrypted and self._encrypted[0][0] <= self._sent:
            written += self._encrypted.popleft()[1]
        return written


def _chunks(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """The buffers' bytes in full records, but for the last: joined, or as they lie in memory."""
    joined: list[memoryview] = []
    size = 0
    for buffer in buffers:
        view = memoryview(buffer)
        if joined:
            joined.append(view[: RECORD - size])
            size += joined[-1].nbytes
            if size < RECORD:
                continue
            yield b"".join(joined)
            view = view[joined[-1].nbytes :]
        whole = view.nbytes // RECORD * RECORD
        for at in range(0, whole, WINDOW):
            yield view[at : min(at + WINDOW, whole)]
        rest = view[whole:]
        joined, size = [rest] if rest else [], rest.nbytes
    if joined:
        yield b"".join(joined)
