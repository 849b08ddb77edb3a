"""Errors of tasks in the driver's report."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus, PartitionStatus
from spark_kafka_sink.common.errors import ColumnError, DeliveryError, KafkaProdError
from spark_kafka_sink.spark.abort_files import ErrorFile

if TYPE_CHECKING:
    from pathlib import Path

ERROR = ColumnError("row 3 has no value", topic="events", hint="leave it out")


def test_last_error_is_returned_once(tmp_path: Path) -> None:
    file = ErrorFile(str(tmp_path / "reports"), "w")
    task = pickle.loads(pickle.dumps(file))
    task.store(KafkaProdError("of the first attempt"))
    with pytest.raises(ColumnError), task.storing_errors():
        raise ERROR
    assert file.take() == "ColumnError: row 3 has no value [topic=events]. leave it out"
    assert file.take() is None
    assert list((tmp_path / "reports").iterdir()) == []


def test_each_micro_batch_has_its_own_file(tmp_path: Path) -> None:
    file = ErrorFile(str(tmp_path), "s", of_stream=True)
    with pytest.raises(ColumnError), file.storing_errors(7):
        raise ERROR
    assert file.take(8) is None
    assert (file.take(7) or "").startswith("ColumnError: row 3")


def test_record_statuses_are_left_to_the_report(tmp_path: Path) -> None:
    error = DeliveryError("it failed", hint="again")
    error.statuses = (
        PartitionStatus(topic="t", partition=0, records=3, status=DeliveryStatus.NOT_PERSISTED),
    )
    file = ErrorFile(str(tmp_path), "w")
    file.store(error)
    assert file.take() == "DeliveryError: it failed. again"
    assert len(error.statuses) == 1


@pytest.mark.parametrize("folder", [None, "/no/such/machine/reports", "/dev/null/x"])
def test_nothing_is_stored_without_the_drivers_folder(folder: str | None) -> None:
    file = ErrorFile(folder, "w")
    file.store(ERROR)
    assert file.take() is None
    with pytest.raises(ColumnError), file.storing_errors():
        raise ERROR


def test_other_errors_are_not_stored(tmp_path: Path) -> None:
    file = ErrorFile(str(tmp_path), "w")
    with pytest.raises(ValueError, match="x"), file.storing_errors():
        raise ValueError("x")
    assert file.take() is None
