"""The memory of a task is limited to buffer.memory and a fixed overhead.

The writer is much faster than the broker, so the buffer is always full. The task runs in its own
process, without other allocations.
"""

import json
import time
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from uuid import UUID

import pytest

from spark_kafka_sink.kafka.protocol.versions import ApiKey
from tests.integration.security.scripted_broker import scripted_broker
from tests.support.python import run_python
from tests.support.servers import listening

ROOT = Path(__file__).parents[2]
PARTITIONS = 100
BUFFER = 32 << 20
RECORD = 200
# Two Arrow batches of 2 MB, one chunk being encoded, buffers of the codec, and the allocators.
RSS_OVERHEAD = 40 << 20
ARROW_OVERHEAD = 16 << 20


class SlowBroker:
    """Accepts records at a limited rate and discards them.

    A real broker would need disk space, and its speed would depend on the load of the machine.
    """

    def __init__(self, bytes_per_second: float) -> None:
        self.port = 0
        self._rate = bytes_per_second
        self._lock = Lock()

    def respond(self, api: ApiKey, request: Any) -> dict[str, Any]:
        if api is ApiKey.INIT_PRODUCER_ID:
            return {"producer_id": 1, "producer_epoch": 0}
        topic = {"name": "t", "topic_id": UUID(int=1)}
        if api is ApiKey.METADATA:
            partitions = [{"partition_index": n, "leader_id": 1} for n in range(PARTITIONS)]
            node = {"node_id": 1, "host": "127.0.0.1", "port": self.port}
            topics = [topic | {"partitions": partitions}] if request.topics else []
            return {"brokers": [node], "cluster_id": "slow", "controller_id": 1, "topics": topics}
        received = request.topic_data[0].partition_data
        with self._lock:
            time.sleep(sum(len(part.records) for part in received) / self._rate)
        placed = {"base_offset": 0, "log_append_time": None}
        responses = [placed | {"index": part.index} for part in received]
        return {"responses": [topic | {"partition_responses": responses}]}


@pytest.mark.parametrize(
    ("codec", "size", "rate"),
    [("none", 240_000_000, 12e6), ("zstd", 180_000_000, 6e6)],
    ids=["none", "zstd"],
)
def test_memory_is_bounded_by_the_buffer(codec: str, size: int, rate: float) -> None:
    broker = SlowBroker(rate)
    serve = scripted_broker(broker.respond)
    with listening(lambda client: Thread(target=serve, args=(client,), daemon=True).start()) as at:
        broker.port = int(at.partition(":")[2])
        arguments = map(str, (broker.port, size, BUFFER, codec))
        task = run_python(
            "-m", "tests.integration.support.memory_task", *arguments, cwd=ROOT, timeout_s=500
        )
    assert task.returncode == 0, task.stderr
    used = json.loads(task.stdout)
    assert used["records"] >= size // RECORD
    assert used["waited"] > 1.0, "the broker was not slow, so nothing was measured"
    assert used["peak_charged"] > BUFFER * 0.9
    assert used["rss"] < BUFFER + RSS_OVERHEAD
    assert used["arrow"] < BUFFER + ARROW_OVERHEAD
