"""The jobs in examples/ run unchanged, and the compose file starts their Kafka."""

import os
from pathlib import Path

import pytest
import yaml

from spark_kafka_sink import EmbeddedBroker, read_records
from tests.e2e.spark_settings import SETTINGS
from tests.support.python import run_python
from tools.docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
WARNINGS = {"exactly_once": ["was already written to topic example-exactly-once"]}
"""Texts of the warnings that a job logs, in order."""
PRINTED = {
    "batch": "b'customer-99'",
    "exactly_once": "1,000 records, each once",
    "foreach_batch": "b'be' b'2'",
    "secured": "1000 records were written with TLS",
    "stream": "kafkaprod report",
}


def run(example: Path, servers: str, folder: Path) -> str:
    environment = {**os.environ, **SETTINGS, "KAFKA": servers, "SECONDS_TO_RUN": "90"}
    done = run_python(
        example, timeout_s=500, cwd=folder, env={**environment, "TMPDIR": str(folder)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if example.stem != "stream":  # stopping a query interrupts its micro-batch, which Spark logs
        warnings = [line for line in done.stderr.splitlines() if "WARN spark_kafka_sink" in line]
        expected = WARNINGS.get(example.stem, [])
        assert len(warnings) == len(expected), warnings
        assert all(text in line for text, line in zip(expected, warnings, strict=True)), warnings
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_unchanged(example: Path, tmp_path: Path) -> None:
    with EmbeddedBroker() as broker:
        text = run(example, broker.bootstrap_servers, tmp_path)
        assert PRINTED[example.stem] in text
        if example.stem == "stream":
            kafka = {"kafka.bootstrap.servers": broker.bootstrap_servers}
            assert read_records("example-stream", limit=1, **kafka)  # type: ignore[arg-type]


def test_all_examples_are_tested() -> None:
    assert {path.stem for path in EXAMPLES} == PRINTED.keys()


def test_compose_file_uses_the_address_of_the_examples() -> None:
    (kafka,) = yaml.safe_load((ROOT / "examples" / "compose.yaml").read_text())["services"].values()
    assert kafka["ports"] == ["9092:9092"]
    assert "HOST://localhost:9092" in kafka["environment"]["KAFKA_ADVERTISED_LISTENERS"]
