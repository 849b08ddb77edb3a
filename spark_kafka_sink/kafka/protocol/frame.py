"""Split received bytes into frames, and detect other protocols, without I/O."""

from __future__ import annotations

from spark_kafka_sink.common.errors import ProtocolError

SIZE_BYTES = 4
MAX_FRAME = 100 * 1024 * 1024
"""Kafka's default for socket.request.max.bytes."""
_MAX_SEPARATE_CHUNKS = 16
"""Number of chunks of a frame that are stored without copying, regardless of their size."""
_MIN_CHUNK_SIZE = 4 * 1024
"""Minimum size in bytes of later chunks that are not copied. A separate object requires 300
additional bytes.
"""


class OtherProtocolError(ProtocolError):
    """The bytes are in a different protocol: TLS or HTTP."""


class TlsBytesError(OtherProtocolError):
    """The bytes are TLS."""


_OTHER_PROTOCOLS = (
    (
        b"\x15\x03",
        TlsBytesError,
        "this is a TLS alert",
        "The port uses TLS: set kafka.security.protocol=SSL, or SASL_SSL if it requires SASL",
    ),
    (
        b"\x16\x03",
        TlsBytesError,
        "this is a TLS handshake",
        "The peer uses TLS, but kafka.security.protocol disables TLS",
    ),
    (
        b"HTTP",
        OtherProtocolError,
        "this is an HTTP response",
        "The address belongs to a web server, not to a broker",
    ),
    *(
        (
            method,
            OtherProtocolError,
            "this is an HTTP request",
            "An HTTP client found the broker's port",
        )
        for method in (b"GET ", b"POST")
    ),
)


class FrameReader:
    """Collects received bytes and returns complete frames.

    A frame that arrives in one chunk is a slice of that chunk. The chunks of all other frames are
    joined once, when the frame is complete. The reader does not allocate memory for bytes that have
    not been received. If a peer sends single bytes, the reader needs little more memory than the
    received bytes.
    """

    __slots__ = ("_chunks", "_limit", "_needed", "held")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._chunks: list[memoryview | bytearray] = []
        self.held = 0
        """Number of received bytes of the incomplete frame, including its size field."""
        self._needed = SIZE_BYTES

    def set_limit(self, limit: int) -> None:
        """Set the maximum frame size in bytes."""
        self._limit = limit

    @property
    def missing(self) -> int:
        """Number of bytes missing from the incomplete frame, or 0 if its size is not yet known."""
        return max(self._needed - self.held, 0) if self._needed > SIZE_BYTES else 0

    def take_rest(self) -> memoryview:
        """Remove and return the received part of the incomplete frame, including its size field."""
        incomplete = self._join_chunks()
        self._keep_incomplete(memoryview(b""))
        return incomplete

    def feed(self, data: bytes) -> list[memoryview]:
        """Add received bytes. Return the frames that are now complete, without their size fields.

        Raises:
            ProtocolError: a size is negative or exceeds the limit. The stream is then unusable.
        """
        if not self.held and self._is_one_frame(data):
            return [memoryview(data)[SIZE_BYTES:]]
        if len(self._chunks) < _MAX_SEPARATE_CHUNKS or len(data) >= _MIN_CHUNK_SIZE:
            self._chunks.append(memoryview(data))
        else:
            self._append_small(data)
        self.held += len(data)
        frames: list[memoryview] = []
        while self.held >= self._needed:
            joined = self._join_chunks()
            at = 0
            while len(joined) - at >= SIZE_BYTES:
                size = self._parse_frame_size(joined[at : at + SIZE_BYTES])
                end = at + SIZE_BYTES + size
                if end > len(joined):
                    break
                frames.append(joined[at + SIZE_BYTES : end])
                at = end
            self._keep_incomplete(joined[at:])
        return frames

    def _is_one_frame(self, data: bytes) -> bool:
        size = len(data) - SIZE_BYTES
        return 0 <= size <= self._limit and int.from_bytes(data[:SIZE_BYTES], "big") == size

    def _append_small(self, data: bytes) -> None:
        last = self._chunks[-1]
        if isinstance(last, bytearray):
            last += data
        else:
            self._chunks.append(bytearray(data))

    def _join_chunks(self) -> memoryview:
        joined = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        return memoryview(joined)

    def _keep_incomplete(self, incomplete: memoryview) -> None:
        self._chunks = [incomplete] if len(incomplete) else []
        self.held = len(incomplete)
        self._needed = SIZE_BYTES
        if len(incomplete) >= SIZE_BYTES:
            self._needed += self._parse_frame_size(incomplete[:SIZE_BYTES])

    def _parse_frame_size(self, prefix: memoryview) -> int:
        size = int.from_bytes(prefix, "big", signed=True)
        if 0 <= size <= self._limit:
            return size
        first = bytes(prefix)
        for prefix_bytes, error_class, protocol, hint in _OTHER_PROTOCOLS:
            if first.startswith(prefix_bytes):
                raise error_class(f"the bytes are not in Kafka's protocol: {protocol}", hint=hint)
        raise ProtocolError(
            f"a frame has {size:,} bytes, but the limit is {self._limit:,}",
            hint="Check that this is the address of a Kafka broker.",
        )
