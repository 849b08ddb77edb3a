"""The Python code in README.md and docs/ runs unchanged.

The blocks of README.md are one script, as are those of each page. Pages use `spark` from the first
block of README.md and its `events` as keys and values. Blocks with tests are run by pytest.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from spark_kafka_sink import EmbeddedBroker
from tests.e2e.spark_settings import SETTINGS
from tests.support.python import run_python
from tools.docs.pages import README, pages

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "localhost:9092"
"""Replaced by the address of the test's broker, as Kafka's default port may be in use."""
TOPICS = {"events": 4, "events-dead": 1, "ordered": 4}
START = """import runpy

made = runpy.run_path("start.py")
columns = "sensor AS key", "to_json(struct(*)) AS value"
shared = {"spark": made["spark"], "events": made["events"].selectExpr(*columns)}
"""


def code_of(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


EXAMPLES = [page for page in pages() if page != README and code_of(page)]


def is_test(block: str) -> bool:
    return "\ndef test_" in block


@pytest.fixture
def kafka() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics=TOPICS) as broker:
        yield broker


def records(servers: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readme"})
    try:
        locations = [TopicPartition(topic, number, 0) for number in range(4)]
        expected = sum(
            consumer.get_watermark_offsets(location, timeout=10)[1] for location in locations
        )
        consumer.assign(locations)
        messages: list[tuple[bytes | None, bytes | None]] = []
        while len(messages) < expected:
            batch = consumer.consume(10_000, timeout=10)
            assert batch, f"{len(messages)} of {expected} records"
            assert not any(message.error() for message in batch)
            messages += [(message.key(), message.value()) for message in batch]
        return messages
    finally:
        consumer.close()


def run(arguments: list[str], folder: Path) -> None:
    """Run Python in a subprocess."""
    done = run_python(*arguments, cwd=folder, env={**os.environ, **SETTINGS}, timeout_s=560)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]


def run_tests(blocks: list[str], folder: Path) -> None:
    """Run each block with pytest as a separate file."""
    for number, block in enumerate(blocks):
        (folder / f"test_{number}.py").write_text(block)
    run(["-m", "pytest", "-q", "."], folder)


def test_code_of_the_readme_runs_unchanged(tmp_path: Path, kafka: EmbeddedBroker) -> None:
    blocks = code_of(README)
    assert len(blocks) >= 5
    assert any(ADDRESS in block for block in blocks)
    script = tmp_path / "readme.py"
    script.write_text("\n".join(blocks).replace(ADDRESS, kafka.bootstrap_servers))
    run([script.name], tmp_path)
    written = records(kafka.bootstrap_servers, "events")
    batch = {
        int(key or b""): json.loads(value) for key, value in written if value and value[:1] == b"{"
    }
    assert {n: event["sensor"] for n, event in batch.items()} == {n: str(n) for n in range(100_000)}
    assert {(b"a", b"from SQL"), (b"b", b"from write")} < set(written)
    streamed = [value for _, value in written if value and re.match(rb"\d{4}-\d\d-\d\d ", value)]
    reports = [json.loads(path.read_text()) for path in (tmp_path / "reports").glob("*.json")]
    assert 0 < sum(report["persisted"] for report in reports) <= len(streamed)
    assert len(written) == 100_000 + 2 + len(streamed)


@pytest.mark.deep
def test_code_of_the_pages_runs_unchanged(tmp_path: Path, kafka: EmbeddedBroker) -> None:
    """Run all pages in one Spark session, created by the first block of README.md."""
    scripts = {"start": code_of(README)[:1]} | {page.stem: code_of(page) for page in EXAMPLES}
    tests = [block for blocks in scripts.values() for block in blocks if is_test(block)]
    assert tests
    run_tests(tests, tmp_path)
    for name, blocks in scripts.items():
        code = "\n".join(block for block in blocks if not is_test(block))
        (tmp_path / f"{name}.py").write_text(code.replace(ADDRESS, kafka.bootstrap_servers))
    lines = [f"runpy.run_path({page.stem + '.py'!r}, shared)" for page in EXAMPLES]
    (tmp_path / "all.py").write_text("\n".join([START, *lines]))
    run(["all.py"], tmp_path)
    assert all(sum(kafka.end_offsets(topic)) > 0 for topic in ("events", "ordered"))
