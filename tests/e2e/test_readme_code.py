"""The Python code in README.md and on the pages of docs/ runs as it is written.

README's blocks are one script. So are those of each page, after README's first block, which makes
`spark` and `events`. Blocks that define tests are run by pytest.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from spark_kafka_sink import EmbeddedBroker
from tools.docs.pages import README, ROOT, pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "localhost:9092"
"""The only thing replaced: the README's broker has Kafka's port, which may be taken here."""
TOPICS = {"events": 4, "events-dead": 1, "ordered": 4}

# What `spark-submit` and a notebook would have set up, kept to the loopback and to two cores.
SETTINGS = {
    "PYSPARK_PYTHON": sys.executable,
    "PYSPARK_SUBMIT_ARGS": "--master local[2] --conf spark.ui.enabled=false pyspark-shell",
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYTHONPATH": str(ROOT),
}


def code_of(page: Path) -> list[str]:
    return _BLOCK.findall(page.read_text(encoding="utf-8"))


EXAMPLES = [page for page in pages() if page != README and code_of(page)]


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=TOPICS) as broker:
        yield broker


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


def run(arguments: list[str], folder: Path) -> None:
    """Run Python as a reader would."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **SETTINGS},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def run_blocks(blocks: list[str], servers: str, folder: Path) -> None:
    """Those that define tests with pytest, the others as one script."""
    tests = [block for block in blocks if "\ndef test_" in block]
    for number, block in enumerate(tests):
        (folder / f"test_{number}.py").write_text(block)
    if tests:
        run(["-m", "pytest", "-q", "."], folder)
    script = folder / "example.py"
    rest = [block for block in blocks if block not in tests]
    script.write_text("\n".join(rest).replace(ADDRESS, servers))
    run([script.name], folder)


def test_the_readme_runs_and_its_records_arrive(tmp_path: Path, kafka: EmbeddedBroker) -> None:
    blocks = code_of(README)
    assert len(blocks) >= 5
    assert any(ADDRESS in block for block in blocks)
    run_blocks(blocks, kafka.bootstrap_servers, tmp_path)
    found = records(kafka.bootstrap_servers, "events")
    batch = {int(key): json.loads(value) for key, value in found if value and value[:1] == b"{"}
    assert {key: event["id"] for key, event in batch.items()} == {n: n for n in range(100_000)}
    assert (b"a", b"from SQL") in found
    streamed = [value for _, value in found if value and re.match(rb"\d{4}-\d\d-\d\d ", value)]
    reports = [json.loads(path.read_text()) for path in (tmp_path / "reports").glob("*.json")]
    assert 0 < sum(report["persisted"] for report in reports) <= len(streamed)
    assert len(found) == 100_000 + 1 + len(streamed)


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.stem)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, kafka: EmbeddedBroker) -> None:
    blocks = code_of(page)
    if any(re.search(r"\b(spark|events|report\.json)\b", block) for block in blocks):
        blocks = [code_of(README)[0], *blocks]
    run_blocks(blocks, kafka.bootstrap_servers, tmp_path)
    if any(f'"{ADDRESS}"' in block for block in code_of(page)):
        assert sum(map(sum, map(kafka.end_offsets, TOPICS))) > 0
