"""The five codecs of a RecordBatch, with the framing that Java's client writes and reads.

Every function processes whole batches and releases the GIL. A codec's library is imported when its
first batch is processed, so that tasks start faster without it.

Source: Kafka's package ``org.apache.kafka.common.compress``; KIP-390 (levels), KIP-110 (zstd).
"""

from __future__ import annotations

import struct
import zlib
from functools import cache
from threading import local
from typing import TYPE_CHECKING, Any, cast

from spark_kafka_sink.common.errors import ProtocolError
from spark_kafka_sink.config.enums import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Buffer

    Compressor = Callable[[Buffer, int | None], bytes]
    Decompressor = Callable[[memoryview, int], bytes]

_JAVA_LZ4_DEFAULT_LEVEL = 9
_ZSTD_DEFAULT_LEVEL = 3
_GZIP_WINDOW = 31
"""Argument of zlib for the largest window, in the format of gzip."""
_GZIP_MAGIC = b"\x1f\x8b"
_LZ4_FLAGS_OFFSET = 4
_LZ4_INDEPENDENT = 0x20
"""Bit of the flags that is set if the blocks of a frame do not refer to each other."""
_ZSTD_STEP = 4096
"""Maximum compressed bytes passed to the decompressor at once, which expand to at most 128 MiB."""

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
"""Uncompressed size of a block in bytes."""
_INT32 = struct.Struct(">i")

_per_thread = local()


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Return the compressed records section. If `level` is None, use Java's default level."""
    return _FUNCTIONS[codec][0](data, level)


def decompress(codec: Codec, data: Buffer, limit: int) -> bytes:
    """Return the decompressed records section.

    Raises:
        ProtocolError: the data is invalid for the codec, or decompresses to more than `limit`
            bytes.
    """
    try:
        plain = _FUNCTIONS[codec][1](memoryview(data), limit)
    except _invalid_data() as error:
        raise ProtocolError(f"{codec.name} records cannot be decompressed") from error
    if len(plain) > limit:
        raise ProtocolError(f"{codec.name} records decompress to more than {limit} bytes")
    return plain


@cache
def _invalid_data() -> tuple[type[Exception], ...]:
    """Return the exception classes with which the libraries reject invalid data."""
    import cramjam
    import zstandard

    of_libraries = (zstandard.ZstdError, cramjam.DecompressionError)
    return (ValueError, RuntimeError, EOFError, struct.error, zlib.error, *of_libraries)


def _gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: memoryview, limit: int) -> bytes:
    """Decompress all members, as Java's GZIPInputStream does, and ignore trailing data."""
    parts: list[bytes] = []
    size = 0
    while not parts or data[: len(_GZIP_MAGIC)] == _GZIP_MAGIC:
        member = zlib.decompressobj(_GZIP_WINDOW)
        parts.append(member.decompress(data, limit + 1 - size))
        size += len(parts[-1])
        if size > limit:
            break
        if not member.eof:
            raise EOFError("truncated gzip data")
        data = data[len(data) - len(member.unused_data) :]
    return b"".join(parts)


def _snappy(data: Buffer, level: int | None) -> bytes:  # noqa: ARG001 - snappy has no levels
    """Compress with xerial framing, the only framing that Java reads."""
    import cramjam

    view = memoryview(data)
    framed = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        framed += _INT32.pack(len(block)) + block
    return bytes(framed)


def _unsnappy(data: memoryview, limit: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _unsnappy_block(data, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise EOFError("truncated snappy header")
    plain = bytearray()
    position = len(_XERIAL_HEADER)
    while position < len(data) and len(plain) <= limit:
        (size,) = _INT32.unpack_from(data, position)
        position += _INT32.size
        if not 0 <= size <= len(data) - position:
            raise ValueError("a snappy block extends past the end of its frame")
        plain += _unsnappy_block(data[position : position + size], limit)
        position += size
    return bytes(plain)


def _unsnappy_block(block: memoryview, limit: int) -> bytes:
    import cramjam

    if cramjam.snappy.decompress_raw_len(block) > limit:
        raise ValueError("a snappy block exceeds the size limit")
    return bytes(cramjam.snappy.decompress_raw(block))


def _lz4(data: Buffer, level: int | None) -> bytes:
    """Compress independent blocks of 64 KiB.

    Java's default, level 9, selects Java's fast compressor instead of its high-compression
    compressor.
    """
    import lz4.frame

    fast = level is None or level == _JAVA_LZ4_DEFAULT_LEVEL
    compressed = lz4.frame.compress(
        data,
        compression_level=0 if fast else max(level or 0, lz4.frame.COMPRESSIONLEVEL_MINHC),
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return cast("bytes", compressed)


def _unlz4(data: memoryview, limit: int) -> bytes:
    """Decompress the first frame. Like Java, reject linked blocks and ignore trailing data."""
    import lz4.frame

    if len(data) > _LZ4_FLAGS_OFFSET and not data[_LZ4_FLAGS_OFFSET] & _LZ4_INDEPENDENT:
        raise ValueError("lz4 frames with linked blocks are not supported")
    decompressor = lz4.frame.LZ4FrameDecompressor()
    plain = cast("bytes", decompressor.decompress(data, max_length=limit + 1))
    if not decompressor.eof and len(plain) <= limit:
        raise EOFError("truncated lz4 frame")
    return plain


def _zstd(data: Buffer, level: int | None) -> bytes:
    chosen = _ZSTD_DEFAULT_LEVEL if level is None else level
    contexts: dict[str, Any] = _per_thread.__dict__
    key = f"zstd{chosen}"
    if key not in contexts:
        import zstandard

        # A context is not thread-safe, and creating a context costs more than a small batch.
        parameters = zstandard.ZstdCompressionParameters.from_level(chosen, write_content_size=True)
        contexts[key] = zstandard.ZstdCompressor(compression_params=parameters)
    return cast("bytes", contexts[key].compress(data))


def _unzstd(data: memoryview, limit: int) -> bytes:
    """Decompress all frames."""
    import zstandard

    plain = bytearray()
    while data and len(plain) <= limit:
        frame = zstandard.ZstdDecompressor().decompressobj()
        position = 0
        while not frame.eof and position < len(data) and len(plain) <= limit:
            plain += frame.decompress(data[position : position + _ZSTD_STEP])
            position = min(position + _ZSTD_STEP, len(data))
        if not frame.eof and len(plain) <= limit:
            raise EOFError("truncated zstd frame")
        data = data[position - len(frame.unused_data) :]
    return bytes(plain)


_FUNCTIONS: dict[Codec, tuple[Compressor, Decompressor]] = {
    Codec.NONE: (lambda data, _level: bytes(data), lambda data, _limit: bytes(data)),
    Codec.GZIP: (_gzip, _gunzip),
    Codec.SNAPPY: (_snappy, _unsnappy),
    Codec.LZ4: (_lz4, _unlz4),
    Codec.ZSTD: (_zstd, _unzstd),
}
