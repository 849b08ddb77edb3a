"""The memory of a task is limited to buffer.memory and a fixed overhead.

The writer is much faster than the broker, so the buffer is always full. The task runs in its own
process, without other allocations.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTITIONS = 100
BUFFER = 32 << 20
RECORD = 200
# Two Arrow batches of 2 MB, one chunk being encoded, buffers of the codec, and the allocators.
RSS_OVERHEAD = 40 << 20
ARROW_OVERHEAD = 16 << 20


def command(module: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", module, *map(str, arguments)]


@contextmanager
def slow_broker(bytes_per_second: float) -> Iterator[str]:
    """Run a broker with limited throughput and yield its port."""
    with subprocess.Popen(
        command("tools.support.slow_broker", PARTITIONS, bytes_per_second),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as broker:
        try:
            assert broker.stdout is not None
            yield broker.stdout.readline().strip()
        finally:
            broker.kill()


@pytest.mark.parametrize(
    ("codec", "size", "rate"),
    [("none", 240_000_000, 12e6), ("zstd", 180_000_000, 6e6)],
    ids=["none", "zstd"],
)
def test_memory_is_bounded_by_the_buffer(codec: str, size: int, rate: float) -> None:
    with slow_broker(rate) as port:
        task = subprocess.run(
            command("tests.integration.support.memory_task", port, size, BUFFER, codec),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    assert task.returncode == 0, task.stderr
    used = json.loads(task.stdout)
    assert used["records"] >= size // RECORD
    assert used["waited"] > 1.0, "the broker was not slow, so nothing was measured"
    assert used["peak_charged"] > BUFFER * 0.9
    assert used["rss"] < BUFFER + RSS_OVERHEAD
    assert used["arrow"] < BUFFER + ARROW_OVERHEAD
