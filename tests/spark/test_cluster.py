"""Lost executors and workers and repeated tasks, with at-least-once and exactly-once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.report.delivery_counters import WriteStatus
from spark_kafka_sink.report.storage import read_report
from tests.spark.support.cluster_child import ROWS
from tools.support.readers import by_confluent

ROOT = Path(__file__).resolve().parents[2]
TOPICS = ("speculation", "task-retry", "stage-retry")
EXACTLY_ONCE = ("deliveryGuarantee=exactly-once", "transactionalIdPrefix=troubled")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "options"),
    [("local-cluster", EXACTLY_ONCE), ("standalone", ())],
    ids=["executor-exactly-once", "worker-at-least-once"],
)
def test_speculation_and_a_lost_executor_or_worker(
    kind: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    with EmbeddedBroker(topics=dict.fromkeys(TOPICS, 2)) as broker:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.spark.support.cluster_child",
                tmp_path,
                broker.bootstrap_servers,
                kind,
                *options,
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert done.returncode == 0, done.stderr[-3000:]
        for topic in TOPICS:
            found = [int(r.value or b"") for r in by_confluent(broker.bootstrap_servers, topic)]
            assert set(found) == set(range(ROWS)), topic
            assert not options or len(found) == ROWS, f"{topic}: duplicate rows"
            report = DeliveryReport.from_json(read_report(str(tmp_path / f"{topic}.json")))
            assert (report.status, report.persisted) == (WriteStatus.SUCCEEDED, ROWS)
