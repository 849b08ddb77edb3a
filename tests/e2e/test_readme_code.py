"""The Python code in README.md runs as it is written, one block after the other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition
from tools.checks.readme import README, ROOT

from spark_kafka_sink.broker import EmbeddedBroker

if TYPE_CHECKING:
    from pathlib import Path

TEXT = README.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
ADDRESS = "localhost:9092"
"""The only thing replaced: the README's broker has Kafka's port, which may be taken here."""

# What `spark-submit` and a notebook would have set up, kept to the loopback and to two cores.
SETTINGS = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYTHONPATH": str(ROOT),
}


def records(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readme"})
    try:
        places = [TopicPartition(topic, number, 0) for number in range(4)]
        wanted = sum(consumer.get_watermark_offsets(place, timeout=10)[1] for place in places)
        consumer.assign(places)
        found: list[tuple[bytes | None, bytes | None]] = []
        while len(found) < wanted:
            batch = consumer.consume(10_000, timeout=10)
            assert batch, f"{len(found)} of {wanted} records"
            assert not any(message.error() for message in batch)
            found += [(message.key(), message.value()) for message in batch]
        return found
    finally:
        consumer.close()


def test_the_code_runs_and_its_records_arrive(tmp_path: Path) -> None:
    assert len(BLOCKS) >= 5
    assert any(ADDRESS in block for block in BLOCKS)
    with EmbeddedBroker(topics={"events": 4, "events-dead": 1}) as kafka:
        script = tmp_path / "readme.py"
        script.write_text("\n".join(BLOCKS).replace(ADDRESS, kafka.bootstrap_servers))
        done = subprocess.run(
            [sys.executable, script.name],
            cwd=tmp_path,
            env={**os.environ, **SETTINGS},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=280,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        found = records(kafka.bootstrap_servers, "events")
    batch = {int(key): json.loads(value) for key, value in found if value and value[:1] == b"{"}
    assert {key: event["id"] for key, event in batch.items()} == {n: n for n in range(100_000)}
    assert (b"a", b"from SQL") in found
    streamed = [value for _, value in found if value and re.match(rb"\d{4}-\d\d-\d\d ", value)]
    reports = [json.loads(path.read_text()) for path in (tmp_path / "reports").glob("*.json")]
    assert 0 < sum(report["persisted"] for report in reports) <= len(streamed)
    assert len(found) == 2 * 100_000 + 1 + len(streamed)  # once more with a dead letter topic
