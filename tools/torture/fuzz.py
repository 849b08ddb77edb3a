"""Fuzz the decoders, guided by coverage: `python -m tools.torture.fuzz FRAMES [TARGET]`.

Each target runs in its own process. It must parse any input or raise ProtocolError within a time
limit and a memory limit.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import atheris
from crc32c import crc32c
from kio.index import load_entity_schema
from kio.schema.api_versions.v4 import response as api_versions
from kio.schema.index import schema_name_map
from kio.static.primitive import i16, i32Timedelta

from spark_kafka_sink.kafka.protocol.error_codes import ErrorCode

with atheris.instrument_imports(include=["spark_kafka_sink"]):
    from spark_kafka_sink.common.errors import ProtocolError
    from spark_kafka_sink.config.enums import Codec
    from spark_kafka_sink.kafka.client.channel.channel_state import ChannelState
    from spark_kafka_sink.kafka.client.connection_protocol import ConnectionProtocol
    from spark_kafka_sink.kafka.client.request import Request
    from spark_kafka_sink.kafka.protocol.frame import FrameReader
    from spark_kafka_sink.kafka.protocol.message_format import decode, encode
    from spark_kafka_sink.kafka.protocol.messages import read_request_header, read_response
    from spark_kafka_sink.kafka.protocol.versions import ApiKey, response_type
    from spark_kafka_sink.kafka.records.compression import decompress
    from spark_kafka_sink.kafka.records.record_decoder import decode_batch


TYPES = tuple(
    load_entity_schema(name, version, kind)
    for name, versions in schema_name_map.items()
    for version, kinds in versions.items()
    for kind in kinds
)
MEMORY_MIB = 1024
"""Memory limit per target in MiB."""
SECONDS = 5
"""Time limit per input in seconds."""
_VERSIONS = encode(
    api_versions.ApiVersionsResponse(
        error_code=ErrorCode.none,
        api_keys=tuple(
            api_versions.ApiVersion(api_key=i16(api), min_version=i16(0), max_version=i16(13))
            for api in (ApiKey.PRODUCE, ApiKey.METADATA)
        ),
        throttle_time=i32Timedelta.parse(timedelta(0)),
    )
)


def fuzz_decode(data: bytes) -> None:
    """Decode requests and responses of all APIs in all versions."""
    if len(data) > 2:
        kind = TYPES[int.from_bytes(data[:2], "big") % len(TYPES)]
        decode(kind, memoryview(data)[2:])


def fuzz_headers(data: bytes) -> None:
    """Decode request headers, and responses with their headers."""
    if data[:1] < b"\x80":
        read_request_header(data[1:])
    else:
        read_response(response_type(ApiKey.METADATA, 12), data[1:])


def fuzz_frames(data: bytes) -> None:
    """Decode frames of a stream that arrives in pieces."""
    reader = FrameReader()
    step = 1 + (data[0] if data else 0)
    for at in range(1, len(data), step):
        reader.feed(data[at : at + step])


def fuzz_connection(data: bytes) -> None:
    """Feed a connection with arbitrary bytes, or with frames that look like its responses."""
    connection = ConnectionProtocol("fuzz")
    connection.change_state(ChannelState.CONNECTING)
    connection.start_handshake(0.0)
    if data[:1] >= b"\x40":
        _drain(connection, _answer(1, _VERSIONS))
        request = Request(api=ApiKey.PRODUCE, version=7 + data[0] % 7, body=[b""], context=1)
        connection.enqueue(request, 0.0)
    if data[:1] >= b"\x20":
        data = _answer(connection.in_flight[0].correlation_id, data[1:])
    half = len(data) // 2
    _drain(connection, data[:half])
    _drain(connection, data[half:])


def _drain(connection: ConnectionProtocol, data: bytes) -> None:
    for _ in connection.receive_data(data, 0.0):
        pass


def _answer(correlation_id: int, body: bytes) -> bytes:
    frame = correlation_id.to_bytes(4, "big") + body
    return len(frame).to_bytes(4, "big") + frame


def fuzz_records(data: bytes) -> None:
    """Decode a record batch whose checksum has been corrected."""
    batch = bytearray(data)
    if len(batch) > 21:
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[16] = 2
        batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4, "big")
    for _ in decode_batch(bytes(batch)):
        pass


def fuzz_decompress(data: bytes) -> None:
    """Decompress data with each codec."""
    if data:
        decompress(Codec(data[0] % len(Codec)), data[1:], 1 << 20)


TARGETS: dict[str, tuple[Callable[[bytes], None], int]] = {
    "decode": (fuzz_decode, 40),
    "headers": (fuzz_headers, 10),
    "frames": (fuzz_frames, 10),
    "connection": (fuzz_connection, 20),
    "records": (fuzz_records, 10),
    "decompress": (fuzz_decompress, 10),
}
"""The targets by name, with the percentage of the frames that each target gets."""


def fuzz(name: str, runs: int) -> None:
    """Run a target, and exit the process with status 0 if there are no findings."""
    target, _ = TARGETS[name]

    def run_target(data: bytes) -> None:
        with suppress(ProtocolError):
            target(data)

    options = [
        f"-runs={runs}",
        # The peak that libFuzzer compares includes the peak of the process that started this one.
        "-rss_limit_mb=0",
        f"-timeout={SECONDS}",
        f"-artifact_prefix={tempfile.gettempdir()}/fuzz-{name}-",
        "-max_len=512",
        "-verbosity=0",
    ]
    # The limit turns excessive memory use into a MemoryError, which is a finding.
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    limit = pages * resource.getpagesize() + (MEMORY_MIB << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    atheris.Setup([name, *options], run_target)
    atheris.Fuzz()


def main() -> None:
    """Run each target in a separate process; exit with status 1 if there are findings."""
    total, failed = int(sys.argv[1]), 0
    for name, (_, share) in TARGETS.items():
        frames, started = total * share // 100, time.monotonic()
        command = [sys.executable, "-m", "tools.torture.fuzz", str(frames), name]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, encoding="utf-8"
        )
        failed += done.returncode != 0
        said = "ok" if done.returncode == 0 else f"FAILED\n{done.stdout}{done.stderr}"
        took = time.monotonic() - started
        print(f"{name:12}{frames:9,} frames {took:7.1f} s  {said}", flush=True)
    print(f"{total:,} frames, {failed} targets failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    if sys.argv[2:]:
        fuzz(sys.argv[2], int(sys.argv[1]))
    else:
        main()
