"""Progress from a task's thread to the listener, over a real socket."""

import socket
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from spark_kafka_sink.report.task_attempt import TaskAttempt
from spark_kafka_sink.spark.reports.progress_listener import ProgressListener
from spark_kafka_sink.spark.reports.task_progress import ProgressAddress, ProgressSender
from spark_kafka_sink.spark.reports.write_progress import WriteProgress

BATCH = pa.record_batch({"value": ["a", "b", "c"]})
TASK = TaskAttempt(partition_id=3, task_attempt_id=9)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]"])
def test_end_of_a_task_arrives_before_the_listener_closes(host: str) -> None:
    shown: list[WriteProgress] = []
    listener = ProgressListener(host, 0.05, shown.append)
    with ProgressSender(listener.address, TASK) as progress_sender:
        assert sum(batch.num_rows for batch in progress_sender.watch([BATCH, BATCH])) == 6
    listener.close()
    assert (shown[-1].rows, shown[-1].running, shown[-1].ended) == (6, 0, 1)


def test_end_is_shown_once() -> None:
    ends: list[WriteProgress] = []
    seen = Event()

    def show(progress: WriteProgress) -> None:
        if progress.ended:
            ends.append(progress)
            seen.set()

    listener = ProgressListener("127.0.0.1", 0.05, show)
    with ProgressSender(listener.address, TASK) as progress_sender:
        list(progress_sender.watch([BATCH]))
    assert seen.wait(60)
    listener.close()
    assert len(ends) == 1


def test_task_without_a_listener_reports_nothing() -> None:
    batches = [BATCH]
    with ProgressSender(None, TASK) as progress_sender:
        assert progress_sender.watch(batches) is batches


def test_listener_is_closed() -> None:
    listener = ProgressListener("127.0.0.1", 0.05, lambda _: None)
    listener.close()
    with ProgressSender(listener.address, TASK) as progress_sender:
        assert list(progress_sender.watch([BATCH])) == [BATCH]


def test_task_does_not_wait_for_the_drivers_name(monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = Event()

    class Unresolved(socket.socket):
        def connect(self, address: object) -> None:
            assert resolved.wait(120), address
            raise socket.gaierror

    monkeypatch.setattr(socket, "socket", Unresolved)
    address = ProgressAddress(host="driver", port=7, token="secret", interval_s=0.01)
    with ProgressSender(address, TASK) as progress_sender:
        list(progress_sender.watch([BATCH]))
    assert not resolved.is_set()
    resolved.set()


def test_address_is_passed_through_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    address = ProgressAddress(host="127.0.0.1", port=7, token="secret", interval_s=2.0)
    assert ProgressAddress.find(folder) is None
    address.publish(folder)
    assert ProgressAddress.find(folder) == address
    assert "secret" not in repr(address)
    ProgressAddress.withdraw(folder)
    ProgressAddress.withdraw(folder)
    assert ProgressAddress.find(folder) is ProgressAddress.find(None) is None
    (folder / "progress").write_text("{")
    assert ProgressAddress.find(folder) is None
