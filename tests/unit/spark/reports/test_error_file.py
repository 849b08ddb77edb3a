"""Errors of tasks in the driver's report."""

import pickle
from pathlib import Path

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.errors import ColumnError, DeliveryError, KafkaProdError
from spark_kafka_sink.spark.reports.error_file import ErrorFile
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.report_paths import StreamIdentity
from spark_kafka_sink.spark.reports.write_origin import WriteOrigin

ERROR = ColumnError("row 3 has no value", topic="events", hint="leave it out")
STREAM = StreamIdentity("query", "/checkpoint")


@pytest.fixture
def application(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Spark application's reports."""
    here = ReportFolder.of(tmp_path)
    monkeypatch.setattr(ReportFolder, "here", classmethod(lambda _: here))
    return here.application


def test_last_error_is_returned_once(tmp_path: Path) -> None:
    file = ErrorFile(str(tmp_path / "reports" / "w.error"))
    task = pickle.loads(pickle.dumps(file))
    task.store(KafkaProdError("of the first attempt"))
    with pytest.raises(ColumnError), task.storing_errors():
        raise ERROR
    assert file.take() == "ColumnError: row 3 has no value [topic=events]. leave it out"
    assert file.take() is None
    assert list((tmp_path / "reports").iterdir()) == []


def test_error_of_an_earlier_attempt_is_removed(tmp_path: Path) -> None:
    """After a retry, the write may fail for another reason, of which this package knows nothing."""
    file = ErrorFile(str(tmp_path / "w.error"))
    for partition in (0, 11, 1):
        with pytest.raises(ColumnError), file.storing_errors(partition):
            raise ColumnError(f"in partition {partition}")
    with file.storing_errors(1):
        pass
    with pytest.raises(ZeroDivisionError), file.storing_errors(11):
        raise ZeroDivisionError
    assert file.take() == "ColumnError: in partition 0"
    assert list(tmp_path.iterdir()) == []


def plan(stream: StreamIdentity) -> WriteOrigin:
    """Return the origin of a micro-batch as planning pickles it to the tasks."""
    origin = WriteOrigin.of_stream(stream)
    origin.planning_file.store(origin.planned)
    task: WriteOrigin = pickle.loads(pickle.dumps(origin))
    return task


def taken(stream: StreamIdentity) -> str | None:
    return WriteOrigin.of_stream(stream, is_planning=False).error_file.take()


@pytest.mark.usefixtures("application")
def test_abort_finds_the_error_of_the_planned_micro_batch() -> None:
    task, other = plan(STREAM), plan(StreamIdentity("other", ""))
    with pytest.raises(ColumnError), task.error_file.storing_errors():
        raise ERROR
    other.error_file.store(KafkaProdError("of another stream"))
    assert (taken(STREAM) or "").startswith("ColumnError: row 3")
    assert taken(STREAM) is None


def test_error_of_an_earlier_run_is_not_taken(application: Path) -> None:
    """A task may fail after abort(), and before or after the micro-batch is planned again."""
    earlier = plan(STREAM)
    assert taken(STREAM) is None
    earlier.error_file.store(ERROR)
    plan(STREAM)
    assert not list(application.glob("*.error*"))
    earlier.error_file.store(ERROR)
    assert taken(STREAM) is None


@pytest.mark.usefixtures("application")
def test_streams_without_an_identity_share_no_errors() -> None:
    unknown = StreamIdentity("", "")
    plan(unknown).error_file.store(ERROR)
    assert taken(unknown) is None


def test_record_statuses_are_left_to_the_report(tmp_path: Path) -> None:
    error = DeliveryError("it failed", hint="again")
    error.statuses = (
        PartitionStatus(topic="t", partition=0, records=3, status=DeliveryStatus.NOT_PERSISTED),
    )
    file = ErrorFile(str(tmp_path / "w.error"))
    file.store(error)
    assert file.take() == "DeliveryError: it failed. again"
    assert len(error.statuses) == 1


@pytest.mark.parametrize("path", ["", "/no/such/machine/reports/w.error", "/dev/null/x/w.error"])
def test_nothing_is_stored_without_the_drivers_folder(path: str) -> None:
    file = ErrorFile(path)
    file.store(ERROR)
    assert file.take() is None
    with pytest.raises(ColumnError), file.storing_errors():
        raise ERROR


def test_other_errors_are_not_stored(tmp_path: Path) -> None:
    file = ErrorFile(str(tmp_path / "w.error"))
    with pytest.raises(ValueError, match="x"), file.storing_errors():
        raise ValueError("x")
    assert file.take() is None
