"""The measured memory of a peer does not include that of its parent process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink import EmbeddedBroker
from tools.benchmarks.core.contestants import Job, librdkafka_command
from tools.benchmarks.results import python, run_contestant

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
ALLOCATED = 1_024 * MIB


def test_memory_of_the_benchmark_process_is_not_counted(tmp_path: Path) -> None:
    payload = tmp_path / "lines"
    payload.write_bytes(b"a line\n" * 100)
    held = bytearray(ALLOCATED)
    held[::4096] = b"." * (ALLOCATED // 4096)
    with EmbeddedBroker(topics={"t": 1}) as broker:
        job = Job(
            bootstrap_servers=broker.bootstrap_servers,
            topic="t",
            payload=payload,
            warmup=10,
            records=1_000,
        )
        for command in (
            librdkafka_command(job),
            python("tools.benchmarks.core.contestants", "ours", job.to_json()),
        ):
            assert 1 < run_contestant(command).peak_mib < ALLOCATED / MIB / 2
    assert len(held) == ALLOCATED
