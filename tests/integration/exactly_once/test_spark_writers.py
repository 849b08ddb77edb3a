"""The exactly-once writers, called like from Spark, with and without two-phase commit."""

import logging
from dataclasses import replace
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from spark_kafka_sink import DeliveryReport, EmbeddedBroker
from spark_kafka_sink.common.errors import (
    ConfigError,
    DeliveryError,
    FencedError,
    KafkaProdError,
    ProtocolError,
    TransactionError,
)
from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.exactly_once.decision_record import DecisionRecord
from spark_kafka_sink.exactly_once.operator_commands import TransactionOperator
from spark_kafka_sink.exactly_once.scope_state import Decided
from spark_kafka_sink.exactly_once.steps.scope_client import connected_scope_client
from spark_kafka_sink.kafka.admin.transaction_admin import TransactionAdmin
from spark_kafka_sink.kafka.blocking.blocking_client import BlockingClient
from spark_kafka_sink.kafka.logs.appender import TransactionalAppender
from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.spark.exactly_once import transactional_task
from spark_kafka_sink.spark.exactly_once.completion import ExactlyOnceCompletion
from spark_kafka_sink.spark.exactly_once.planning import plan_micro_batch, plan_write, stream_scope
from spark_kafka_sink.spark.exactly_once.transaction_commit_messages import TransactionCommitMessage
from spark_kafka_sink.spark.exactly_once.transactional_task import TransactionalTaskWriter
from spark_kafka_sink.spark.reports.planning_file import PlanningFile
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin
from spark_kafka_sink.spark.runtime import internals
from spark_kafka_sink.spark.runtime.internals import BATCH_ID, QUERY_ID
from spark_kafka_sink.spark.writers.commit_messages import CommitMessage
from spark_kafka_sink.spark.writers.write_completion import WriteJob
from tests.support.column_roles import column_roles
from tests.support.waiting import wait_until_equal
from tools.support.admin import Admin
from tools.support.kafka_cluster import AnyKafka, KafkaCluster, ZooKeeperCluster
from tools.support.readers import by_confluent

ROWS = pa.record_batch({"value": [b"a", b"b"]})
TWO_PHASES = {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}


def planned_job(servers: str, topic: str, **more: str) -> WriteJob:
    return plan_write(sink_config(servers, topic, **more), column_roles(topic), WriteOrigin())


def plan_stream(servers: str, topic: str, folder: Path, **more: str) -> WriteJob:
    """Plan a micro-batch of the query whose planning file is in `folder`."""
    config = sink_config(servers, topic, **more)
    origin = WriteOrigin(
        checkpoint="/checkpoint", planning_file=PlanningFile(str(folder / "q.planned"))
    )
    return plan_micro_batch(config, column_roles(topic), origin)


def sink_config(servers: str, topic: str, **more: str) -> SinkConfig:
    return SinkConfig.parse(
        {
            "kafka.bootstrap.servers": servers,
            "kafka.max.block.ms": "20000",
            "topic": topic,
            "deliveryGuarantee": "exactly-once",
            "transactionalIdPrefix": topic,
            **more,
        }
    )


@pytest.fixture
def micro_batch(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Set the query and the micro-batch of each task; each task is a different attempt."""
    attempts = count()
    monkeypatch.setattr(
        transactional_task,
        "current_task_attempt",
        lambda: TaskAttempt(task_attempt_id=next(attempts)),
    )
    settings = {QUERY_ID: "6b0c7a3e-58e5-4b1f-9a55-0a7f4d3c2b1e", BATCH_ID: "0"}
    monkeypatch.setattr(internals, "local_property", settings.get)
    return settings


def values(servers: str, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in by_confluent(servers, topic))


@pytest.mark.parametrize(
    ("options", "lines"), [({}, 1), ({"batchId": "1"}, 0), ({"summary": "off"}, 0)]
)
def test_job_without_batch_id_logs_that_a_repeated_run_writes_again(
    embedded_broker: EmbeddedBroker,
    unique_topic: str,
    options: dict[str, str],
    lines: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        planned_job(embedded_broker.bootstrap_servers, unique_topic, **options)
    log_records = [record for record in caplog.records if "without batchId" in record.getMessage()]
    assert [record.levelname for record in log_records] == ["INFO"] * lines


def test_rows_cannot_be_written_to_the_decision_log(any_kafka: AnyKafka, unique_topic: str) -> None:
    config = sink_config(any_kafka.bootstrap_servers, unique_topic, batchId="1")
    log = config.exactly_once.decision_log_topic
    roles = replace(column_roles(unique_topic), fixed_topic=None, topic=1)
    writer = plan_write(config, roles, WriteOrigin())
    with pytest.raises(ConfigError) as caught:
        writer.task.run(iter([ROWS.append_column("topic", pa.array([unique_topic, log]))]))
    assert caught.value.topic == log


@pytest.mark.parametrize("is_recreated", [True, False])
def test_batch_is_aborted_if_its_topic_was_deleted(
    any_kafka: AnyKafka, unique_topic: str, *, is_recreated: bool
) -> None:
    """The transactions could still be committed, but the records were in the deleted topic."""
    servers, admin = any_kafka.bootstrap_servers, Admin(any_kafka.bootstrap_servers)
    admin.create_topic(unique_topic)
    writer = planned_job(servers, unique_topic, batchId="1")
    messages = [writer.task.run(iter([ROWS])), writer.task.run(iter([]))]
    admin.delete_topics(unique_topic)
    if is_recreated:
        admin.create_topic(unique_topic)
    text = (
        "deleted and recreated during" if is_recreated else "deleted during the write.* 2 records"
    )
    with pytest.raises(DeliveryError, match=text):
        writer.completion.commit(messages)
    writer.completion.abort(messages)
    if not is_recreated:
        admin.create_topic(unique_topic)
    wait_until_equal(lambda: open_transactions(servers, unique_topic), [])
    again = planned_job(servers, unique_topic, batchId="1")
    again.completion.commit([again.task.run(iter([ROWS]))])
    assert values(servers, unique_topic) == [b"a", b"b"]


def test_on_older_kafkas(old_kafka: ZooKeeperCluster, unique_topic: str) -> None:
    """Use transactions V1."""
    servers = old_kafka.bootstrap_servers
    failed = planned_job(servers, unique_topic, batchId="1")
    failed.completion.abort([failed.task.run(iter([ROWS])), None])
    for _ in range(2):
        writer = planned_job(servers, unique_topic, batchId="1")
        writer.completion.commit([writer.task.run(iter([ROWS]))])
        assert values(servers, unique_topic) == [b"a", b"b"]


def test_task_that_starts_after_the_abort(any_kafka: AnyKafka, unique_topic: str) -> None:
    servers = any_kafka.bootstrap_servers
    stopped = planned_job(servers, unique_topic)
    stopped.completion.abort([None, None])
    with pytest.raises(DeliveryError, match="aborted this write"):
        stopped.task.run(iter([ROWS]))
    wait_until_equal(lambda: open_transactions(servers, unique_topic), [])


def test_task_that_has_a_producer_id_at_the_abort(any_kafka: AnyKafka, unique_topic: str) -> None:
    """The task checked the abort flag before the abort and writes after it."""
    servers = any_kafka.bootstrap_servers
    Admin(servers).create_topic(unique_topic)
    stopped = planned_job(servers, unique_topic)
    assert isinstance(stopped.task, TransactionalTaskWriter)
    settings = stopped.task.plan.transaction(None, "x", TaskAttempt(task_attempt_id=7))
    with BlockingClient(stopped.task.config.producer) as client:
        admin = TransactionAdmin(client)
        late = admin.init_producer_id(settings.transactional_id, 60_000, client.deadline(20))
        stopped.completion.abort([None])
        with pytest.raises(FencedError):
            TransactionalAppender(client, admin).append(
                late, unique_topic, [(b"k", b"v")], client.deadline(20)
            )
    wait_until_equal(lambda: open_transactions(servers, unique_topic), [])


@pytest.mark.parametrize("atomic", ["false", "true"])
def test_planning_aborts_a_planning_that_was_neither_committed_nor_aborted(
    any_kafka: AnyKafka, unique_topic: str, tmp_path: Path, micro_batch: dict[str, str], atomic: str
) -> None:
    """The query was stopped, and Spark was interrupted before it called abort()."""
    servers = any_kafka.bootstrap_servers
    stopped = plan_stream(servers, unique_topic, tmp_path, atomicBatch=atomic)
    stopped.task.run(iter([ROWS]))
    assert open_transactions(servers, unique_topic)
    writer = plan_stream(servers, unique_topic, tmp_path)
    wait_until_equal(lambda: open_transactions(servers, unique_topic), [])
    with pytest.raises(KafkaProdError):
        stopped.task.run(iter([ROWS]))
    writer.completion.commit([writer.task.run(iter([ROWS]))], 0)
    assert values(servers, unique_topic) == [b"a", b"b"]


def test_giving_up_a_planning_does_not_abort_decided_transactions(
    any_kafka: AnyKafka, unique_topic: str, tmp_path: Path, micro_batch: dict[str, str]
) -> None:
    servers = any_kafka.bootstrap_servers
    stopped = plan_stream(servers, unique_topic, tmp_path)
    result, _lost = (stopped.task.run(iter([ROWS])) for _ in range(2))
    assert isinstance(stopped.completion, ExactlyOnceCompletion)
    assert isinstance(result, TransactionCommitMessage)
    transaction = result.result.transaction
    assert transaction is not None
    decided = Decided(query_id=micro_batch[QUERY_ID], batch="0", transactions=(transaction,))
    with connected_scope_client(
        stopped.completion.config, stream_scope(stopped.completion.config)
    ) as scope_client:
        owner = scope_client.fence()
        scope_client.log.read_after_fence()
        scope_client.log.append(owner, DecisionRecord.of(decided, scope_client.timer.wall_ms()))
    stopped.completion.give_up(stopped.completion.origin.planning_file.read())
    assert open_transactions(servers, unique_topic) == [transaction.transactional_id]
    plan_stream(servers, unique_topic, tmp_path)
    wait_until_equal(lambda: open_transactions(servers, unique_topic), [])
    assert values(servers, unique_topic) == [b"a", b"b"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_planning_does_not_give_up_a_planning_that_was_committed_or_aborted(
    embedded_broker: EmbeddedBroker,
    unique_topic: str,
    tmp_path: Path,
    micro_batch: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    end: str,
) -> None:
    servers = embedded_broker.bootstrap_servers
    ended = plan_stream(servers, unique_topic, tmp_path)
    getattr(ended.completion, end)([ended.task.run(iter([ROWS]))], 0)
    monkeypatch.setattr(
        ExactlyOnceCompletion, "give_up", lambda *_: pytest.fail("requests were sent")
    )
    plan_stream(servers, unique_topic, tmp_path)


@pytest.mark.parametrize("effect", ["lose-response", "error=NOT_COORDINATOR"])
def test_abort_check_is_retried(
    embedded_broker: EmbeddedBroker, unique_topic: str, effect: str
) -> None:
    servers = embedded_broker.bootstrap_servers
    writer = planned_job(servers, unique_topic, **{"kafka.request.timeout.ms": "300"})
    embedded_broker.faults.add(f"describe_transactions:{effect}:next=2")
    try:
        message = writer.task.run(iter([ROWS]))
    finally:
        embedded_broker.faults.clear()
    writer.completion.commit([message])
    assert values(servers, unique_topic) == [b"a", b"b"]


def test_tasks_of_an_aborted_write_are_never_decided(
    any_kafka: AnyKafka, unique_topic: str
) -> None:
    """An abort() of an earlier run has read the plan of this run."""
    servers = any_kafka.bootstrap_servers
    writer = planned_job(servers, unique_topic, batchId="1")
    message = writer.task.run(iter([ROWS]))
    assert isinstance(writer.task, TransactionalTaskWriter)
    plan = writer.task.plan
    with connected_scope_client(writer.task.config, plan.scope) as scope_client:
        scope_client.create_abort_flags([plan.nonce])
    with pytest.raises(TransactionError, match=r"abort\(\) was called"):
        writer.completion.commit([message])
    wait_until_equal(lambda: open_transactions(servers, unique_topic), [])
    assert values(servers, unique_topic) == []


@pytest.mark.parametrize("commits_first", [False, True])
@pytest.mark.parametrize("atomic", ["false", "true"])
def test_rows_replaced_by_another_run_are_not_reported(
    any_kafka: AnyKafka, unique_topic: str, tmp_path: Path, atomic: str, commits_first: bool
) -> None:
    """Two runs of a batch have written their rows, and one run is committed."""
    servers, path = any_kafka.bootstrap_servers, str(tmp_path / "report.json")
    (first, written), (second, rows) = two_runs(servers, unique_topic, path, atomic)
    second.completion.commit(rows)
    assert reported(path) == ("committed", 2)
    if commits_first:
        first.completion.commit(written)
        assert reported(path) == ("already written", 0)
    first.completion.abort(written)
    assert reported(path) == ("already written", 0)
    # Spark calls abort() if the process of commit() crashed at its end.
    second.completion.abort(rows)
    assert reported(path) == ("already written", 2)
    assert values(servers, unique_topic) == [b"a", b"b"]


def test_new_checkpoint_does_not_lose_rows_with_spark_connect(
    embedded_broker: EmbeddedBroker,
    unique_topic: str,
    micro_batch: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The query has no id; a restarted query repeats only its latest batch."""
    servers = embedded_broker.bootstrap_servers
    Admin(servers).create_topic(unique_topic)

    def run(session: str, batch: str) -> str:
        """Write a batch in foreachBatch of a query's run."""
        micro_batch.clear()
        micro_batch.update(connect_settings(session))
        writer = planned_job(servers, unique_topic, batchId=batch)
        message = writer.task.run(iter([ROWS]))
        assert isinstance(message, TransactionCommitMessage)
        writer.completion.commit([message])
        return message.result.outcome.value

    assert [run("a", batch) for batch in "01"] == ["written", "written"]
    assert not warnings(caplog)
    assert run("b", "1") == "skipped"
    (warning,) = warnings(caplog)
    assert f"batchId 1 was already written to topic {unique_topic}" in warning
    assert "If these are different rows, use another batchId" in warning
    with pytest.raises(TransactionError, match="this batchId and a later one"):
        run("c", "0")
    assert run("d", "2") == "written"
    with pytest.raises(TransactionError, match="this batchId and a later one"):
        run("d", "1")
    config = sink_config(servers, unique_topic)
    TransactionOperator(config).accept_loss(f"{unique_topic}/batch/0/topic={unique_topic}")
    assert run("e", "0") == "skipped"
    assert values(servers, unique_topic) == [b"a"] * 3 + [b"b"] * 3


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the driver's warnings about writes."""
    log_records = (record for record in caplog.records if record.levelname == "WARNING")
    return [
        record.getMessage()
        for record in log_records
        if record.name.startswith("spark_kafka_sink.spark.")
    ]


def connect_settings(run: str) -> dict[str, str]:
    """Return the properties of a task of foreachBatch with Spark Connect."""
    session = f"0000000{run}-0000-0000-0000-000000000000"
    return {
        "spark.job.tags": f"SparkConnect_OperationTag_User_u_Session_{session}_Operation_o",
        "spark.sql.requireAllClusterKeysForDistribution": "false",
        "spark.sql.cbo.enabled": "false",
        internals.QUERY_MARKER: "true",
    }


def two_runs(
    servers: str, topic: str, path: str, atomic: str
) -> list[tuple[WriteJob, list[CommitMessage]]]:
    """Plan a batch twice and write its rows; the second planning follows the first write."""
    options = {"batchId": "1", "atomicBatch": atomic, "reportPath": path}
    runs = []
    for _ in range(2):
        writer = planned_job(servers, topic, **options)
        runs.append((writer, [writer.task.run(iter([ROWS]))]))
    return runs


def reported(path: str) -> tuple[str, int]:
    report = DeliveryReport.read(path)
    return report.transaction_outcome, report.persisted


def open_transactions(servers: str, topic: str) -> list[str]:
    """Return the open transactions whose prefix is the topic's name."""
    options = {
        "kafka.bootstrap.servers": servers,
        "deliveryGuarantee": "exactly-once",
        "transactionalIdPrefix": topic,
    }
    overview = TransactionOperator(SinkConfig.parse(options)).overview()
    return [transaction.transactional_id for transaction in overview.transactions]


def test_two_phase_commit(unique_topic: str) -> None:
    with KafkaCluster(config=TWO_PHASES) as kafka:
        servers = kafka.bootstrap_servers
        writer = planned_job(servers, unique_topic, batchId="1", twoPhaseCommit="true")
        writer.completion.commit([writer.task.run(iter([ROWS]))])
        assert values(servers, unique_topic) == [b"a", b"b"]
        aborted = planned_job(servers, unique_topic, batchId="2", twoPhaseCommit="true")
        aborted.completion.abort([aborted.task.run(iter([ROWS])), None])
        last = planned_job(servers, unique_topic, batchId="2", twoPhaseCommit="true")
        last.completion.commit([last.task.run(iter([ROWS]))])
        assert values(servers, unique_topic) == [b"a", b"a", b"b", b"b"]


def test_two_phase_commit_is_not_supported(any_kafka: AnyKafka, unique_topic: str) -> None:
    writer = planned_job(any_kafka.bootstrap_servers, unique_topic, twoPhaseCommit="true")
    with pytest.raises(ProtocolError):
        writer.task.run(iter([ROWS]))
