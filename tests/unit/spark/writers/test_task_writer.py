"""The session of a task: given back to the pool after a success, otherwise discarded."""

from unittest.mock import Mock, call

import pyarrow as pa
import pytest

from spark_kafka_sink.config.sink_config import SinkConfig
from spark_kafka_sink.producer import session_pool
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.spark.writers.task_writer import TaskWriter
from tests.support.column_roles import column_roles

ROWS = [pa.record_batch({"value": pa.array([b"a", b"b"], pa.binary())})] * 2
EMPTY = ROWS[0].slice(0, 0)
TRANSACTION = TransactionSettings(transactional_id="p-1-aa-0-0", timeout_ms=1_000)
CREATED = ["borrow_session", "append"]


class LostError(Exception):
    """The failure of a step."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Return the calls to the session, to the pool that lends it, and to `finish`."""
    steps = Mock()
    steps.session = Mock(spec=ProducerSession, suggested_chunk_rows=0, written_topics=())
    steps.borrow_session.return_value = steps.session
    for name in ("borrow_session", "give_back_session", "discard_session"):
        monkeypatch.setattr(session_pool, name, getattr(steps, name))
    return steps


def names(calls: Mock) -> list[str]:
    """Return the names of the called functions and methods, in order."""
    return [name.removeprefix("session.") for name, *_ in calls.mock_calls]


def task_writer() -> TaskWriter:
    options = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}
    return TaskWriter(SinkConfig.parse(options), column_roles())


def test_written_rows(calls: Mock) -> None:
    report, written = task_writer().send_rows([EMPTY, *ROWS], finish=calls.finish)
    assert names(calls) == [*CREATED, "append", "flush", "report", "finish", "give_back_session"]
    assert report is calls.session.report.return_value
    assert written is calls.session.written_topics


def test_no_rows_need_no_session(calls: Mock) -> None:
    assert task_writer().send_rows([EMPTY], TRANSACTION, calls.finish) == (DeliveryReport(), ())
    assert calls.mock_calls == [call.finish(None)]


@pytest.mark.parametrize(
    ("failing", "done"),
    [
        ("session.append", CREATED),
        ("session.flush", [*CREATED, "append", "flush"]),
        ("session.report", [*CREATED, "append", "flush", "report"]),
        ("finish", [*CREATED, "append", "flush", "report", "finish"]),
    ],
)
@pytest.mark.parametrize("transaction", [None, TRANSACTION])
@pytest.mark.parametrize("is_abort_failing", [False, True])
def test_failed_task(
    calls: Mock,
    failing: str,
    done: list[str],
    transaction: TransactionSettings | None,
    *,
    is_abort_failing: bool,
) -> None:
    """The transaction is aborted before the session is discarded, which an error cannot prevent."""
    calls.configure_mock(**{f"{failing}.side_effect": LostError})
    if is_abort_failing:
        calls.session.abort_transaction.side_effect = LostError
    with pytest.raises(LostError):
        task_writer().send_rows(ROWS, transaction, calls.finish)
    aborted = ["abort_transaction"] if transaction is not None else []
    assert names(calls) == [*done, *aborted, "discard_session"]


def test_failure_without_a_session(calls: Mock) -> None:
    calls.borrow_session.side_effect = LostError
    with pytest.raises(LostError):
        task_writer().send_rows(ROWS, TRANSACTION, calls.finish)
    assert names(calls) == ["borrow_session"]
