"""A task that writes much more than its buffer and measures its memory.

    python -m tests.integration.support.memory_task PORT INPUT_BYTES BUFFER_BYTES CODEC

Prints one JSON object: the peak growth of RSS and of Arrow's memory pool in bytes since before the
first large write, and the number of acknowledged records.
"""

import json
import os
import sys
import threading
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.report.task_attempt import TaskAttempt

ROWS = 10_000
VALUE_BYTES = 200
NOISE = 80
"""Incompressible bytes of each value."""
SAMPLE_S = 0.005
PAGE = os.sysconf("SC_PAGE_SIZE")


def resident() -> int:
    """Return the current RSS of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class MemoryWatch(threading.Thread):
    """Samples memory until `stop`; `rss` and `arrow` are peaks in bytes above the start."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._base = resident(), pa.total_allocated_bytes()
        self._stopped = threading.Event()
        self.rss = self.arrow = 0

    def run(self) -> None:
        while not self._stopped.wait(SAMPLE_S):
            self.rss = max(self.rss, resident() - self._base[0])
            self.arrow = max(self.arrow, pa.total_allocated_bytes() - self._base[1])

    def stop(self) -> None:
        """Stop sampling."""
        self._stopped.set()
        self.join()


def rows(number: int) -> Rows:
    """Return a new Arrow batch of rows with keys, like those from Spark."""
    random = np.random.default_rng(number)
    values = np.zeros((ROWS, VALUE_BYTES), np.uint8)
    values[:, :NOISE] = random.integers(0, 256, (ROWS, NOISE), np.uint8)
    data = values.tobytes()
    offsets = pa.py_buffer(np.arange(0, ROWS * VALUE_BYTES + 1, VALUE_BYTES, dtype=np.int32).data)
    value = pa.BinaryArray.from_buffers(pa.binary(), ROWS, [None, offsets, pa.py_buffer(data)])
    key = pa.array(random.integers(0, 1 << 40, ROWS)).cast(pa.string()).cast(pa.binary())
    return Rows(
        columns=Columns(value=cast("pa.BinaryArray", value), key=cast("pa.BinaryArray", key)),
        topics=("t",),
    )


def main(port: str, input_bytes: str, buffer_bytes: str, codec: str) -> None:
    """Write and print the measurements."""
    options = {
        "kafka.bootstrap.servers": f"127.0.0.1:{port}",
        "kafka.buffer.memory": buffer_bytes,
        "kafka.compression.type": codec,
        "kafka.batch.size": str(256 * 1024),
    }
    client = ProducerClient(ProducerConfig.parse(options))
    session = ProducerSession(client)
    session.append(rows(0))
    session.flush()
    watch = MemoryWatch()
    watch.start()
    for number in range(1, 1 + int(input_bytes) // (ROWS * VALUE_BYTES)):
        session.append(rows(number))
    session.flush()
    watch.stop()
    report = session.report(TaskAttempt())
    session.close()
    client.close()
    print(
        json.dumps(
            {
                "rss": watch.rss,
                "arrow": watch.arrow,
                "records": report.persisted,
                "waited": report.metrics.buffer_wait / 1e6,
                "peak_charged": report.metrics.buffer_peak,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
