"""Lost executors and workers and repeated tasks, with at-least-once and exactly-once."""

from pathlib import Path

import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.report.file_storage import read_report
from spark_kafka_sink.report.write_status import WriteStatus
from tests.spark.support.children import run_child
from tests.spark.support.cluster_child import ROWS, WITH_WRITE
from tools.support.readers import by_confluent

TOPICS = ("speculation", "task-retry", "stage-retry")
EXACTLY_ONCE = ("deliveryGuarantee=exactly-once", "transactionalIdPrefix=troubled")


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("kind", "options", "with_write"),
    [
        ("local-cluster", EXACTLY_ONCE, ""),
        ("local-cluster", EXACTLY_ONCE, "yes"),
        ("standalone", (), ""),
    ],
    ids=["executor-exactly-once", "executor-exactly-once-write", "worker-at-least-once"],
)
def test_speculation_and_a_lost_executor_or_worker(
    kind: str,
    options: tuple[str, ...],
    with_write: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(WITH_WRITE, with_write)
    with EmbeddedBroker(topics=dict.fromkeys(TOPICS, 2)) as broker:
        run_child("cluster_child", tmp_path, broker.bootstrap_servers, kind, *options)
        for topic in TOPICS:
            values = [int(r.value or b"") for r in by_confluent(broker.bootstrap_servers, topic)]
            assert set(values) == set(range(ROWS)), topic
            assert not options or len(values) == ROWS, f"{topic}: duplicate rows"
            report = DeliveryReport.from_json(read_report(str(tmp_path / f"{topic}.json")))
            assert (report.status, report.persisted) == (WriteStatus.SUCCEEDED, ROWS)
