"""TLS over another transport (RFC 5246, RFC 8446). OpenSSL uses memory buffers for its I/O.

Encrypted bytes are copied between OpenSSL's memory buffers and the underlying transport, so OpenSSL
never blocks, and the selector watches only the socket. To fill TLS records, small buffers are
joined. Large buffers are encrypted separately. Source: ``SslTransportLayer``.
"""

from __future__ import annotations

import ssl
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from spark_kafka_sink.kafka.client.channel.transport import Transport

RECORD = 16 * 1024
"""Maximum bytes of plaintext in one TLS record."""
WINDOW = 4 * RECORD
"""Bytes of plaintext that are encrypted before they are written to the socket.

A larger window is not faster, because malloc uses mmap for each block of 128 KiB or more.
"""
READ_LIMIT = 256 * 1024
"""Encrypted bytes that are received before `read` returns to the caller.

A peer could endlessly send TLS records without data for the caller, such as session tickets and key
updates.
"""
MAX_UNSENT = 4 * WINDOW
"""Reading stops if OpenSSL has more unsent bytes than this. `write` never leaves as many.

The limit is needed because OpenSSL responds to some messages even if the peer does not read the
responses.
"""


class TlsTransport:
    """An encrypted connection over a connected transport; used by one thread.

    `write` counts bytes as written once the socket has accepted all TLS records that contain these
    bytes. Until then, the caller must pass the bytes again. A request always ends at the end of a
    buffer, so it counts as written if and only if the broker can decrypt all of it.

    Args:
        inner: the transport for the encrypted bytes; it is closed together with this transport.
        context: the client's TLS context.
        host: the name or address that the broker's certificate must contain.

    Raises:
        OSError: the host name is not valid in a certificate.
    """

    def __init__(self, inner: Transport, context: ssl.SSLContext, host: str) -> None:
        self._inner = inner
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        name = host.strip("[]").removesuffix(".")
        try:
            self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=name)
        except ValueError as error:
            raise OSError(f"{host!r} is not a valid host name for TLS: {error}") from error
        self._unsent = memoryview(b"")
        """Bytes taken from `_outgoing` that the inner transport has not yet accepted."""
        self._taken = 0
        """Bytes taken from `_outgoing` so far."""
        self._sent = 0
        """Bytes that the inner transport has accepted so far."""
        self._encrypted: deque[tuple[int, int]] = deque()
        """Chunks not yet counted by `write`: (end offset in the encrypted stream, plaintext bytes).

        A chunk is one TLS record, or all records of one buffer; a request can end only in the last
        record.
        """
        self._error: OSError | None = None
        """The error of a `write` that returned a byte count instead; the next `write` raises it."""
        self._received = 0
        """Encrypted bytes received since `_receive` last returned None."""
        self.wants_read = False
        """See `Transport`. True if OpenSSL has received only a part of a TLS message, such as a
        session ticket. It encrypts nothing until the rest of the message has arrived.
        """

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._inner.fileno()

    @property
    def unsent(self) -> bool:
        """True if encrypted bytes are waiting to be written to the socket."""
        return bool(self._unsent) or self._outgoing.pending > 0

    @property
    def cipher(self) -> str:
        """Negotiated version and cipher, such as "TLSv1.3 TLS_AES_256_GCM_SHA384", or ""."""
        cipher = self._tls.cipher()
        return f"{self._tls.version()} {cipher[0]}" if cipher else ""

    def finish_connect(self) -> bool:
        """Continue the handshake; return True once it is complete.

        Raises:
            OSError: the handshake failed, or the connection is lost.
        """
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_encrypted()
                if not self._receive_more():
                    return False
            except ssl.SSLError:
                self._send_own()
                raise
            else:
                self._send_encrypted()
                return True

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Encrypt and write, one window after another, until the socket is full.

        Returns:
            The plaintext bytes whose TLS records were completely written. Later bytes might already
            be encrypted, so the next call must start with them.

        Raises:
            OSError: the connection is lost; raised by the next call if bytes were already written.
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
        """Return the data of at most one TLS record, None if no data is available, or b"" at EOF.

        Also return None after `READ_LIMIT` bytes. The remaining bytes are then in the socket, where
        the selector detects them, and not in OpenSSL's buffers. A stream that ends without
        close_notify is not an error, because Kafka's frames have lengths.

        Raises:
            OSError: an alert was received, or the connection is lost.
        """
        while True:
            if self._tls.pending() or self._incoming.pending:
                with suppress(ssl.SSLWantReadError):
                    return self._decrypt()
            if self._outgoing.pending > MAX_UNSENT:
                raise ConnectionAbortedError(
                    "the server keeps triggering TLS responses, but does not read the responses"
                )
            if not (data := self._receive()):
                self._send_own()
                return data

    def close(self) -> None:
        """Send close_notify if the socket accepts it immediately; close the inner transport."""
        with suppress(OSError, ValueError):
            self._tls.unwrap()
        self._send_own()
        self._inner.close()

    def _receive_more(self) -> bool:
        """Pass received bytes to the handshake; return False if nothing has arrived."""
        data = self._receive()
        if data == b"":
            raise ConnectionResetError("the server closed the connection during the TLS handshake")
        return data is not None

    def _receive(self) -> bytes | None:
        """Pass received bytes to OpenSSL; return None if nothing arrived, or at `READ_LIMIT`."""
        data = self._inner.read() if self._received < READ_LIMIT else None
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
        if not self._send_encrypted() or self._encrypted:
            return
        for chunk in _chunks(buffers):
            if not self._encrypt(chunk):
                break
            if self._outgoing.pending >= WINDOW and not self._send_encrypted():
                return
        self._send_encrypted()

    def _encrypt(self, data: Buffer) -> bool:
        """Encrypt data; return False if OpenSSL did not accept it."""
        try:
            count = self._tls.write(data)
        except ssl.SSLWantReadError:
            self.wants_read = True
            return False
        self._encrypted.append((self._taken + self._outgoing.pending, count))
        return True

    def _send_encrypted(self) -> bool:
        """Write the encrypted bytes; return True if the socket has accepted all of them."""
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
        """Send OpenSSL's own messages, such as an alert; ignore connection errors.

        If unsent bytes of the caller precede the messages, send nothing, because every sent request
        must be counted.
        """
        if not self._encrypted:
            with suppress(OSError):
                self._send_encrypted()

    def _count_written(self) -> int:
        written = 0
        while self._encrypted and self._encrypted[0][0] <= self._sent:
            written += self._encrypted.popleft()[1]
        return written


def _chunks(buffers: Sequence[Buffer]) -> Iterator[Buffer]:
    """Yield the bytes in chunks of full TLS records, except for the last; join small buffers."""
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
        for start in range(0, whole, WINDOW):
            yield view[start : min(start + WINDOW, whole)]
        remainder = view[whole:]
        joined, size = [remainder] if remainder else [], remainder.nbytes
    if joined:
        yield b"".join(joined)
