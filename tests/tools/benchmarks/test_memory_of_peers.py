"""What a peer is said to have held is its own, however much the process held that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_kafka_sink import EmbeddedBroker
from tools.benchmarks.core.contestants import Job, librdkafka_command
from tools.benchmarks.processes import python, run_contestant

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
HELD = 1_024 * MIB


def test_the_memory_of_the_benchmark_itself_is_not_counted(tmp_path: Path) -> None:
    payload = tmp_path / "lines"
    payload.write_bytes(b"a line\n" * 100)
    held = bytearray(HELD)
    held[::4096] = b"." * (HELD // 4096)
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
            python("tools.benchmarks.core.ours", job.to_json()),
        ):
            assert 1 < run_contestant(command).peak_mib < HELD / MIB / 2
    assert len(held) == HELD
