"""A task's side: a thread that tells the driver's Python how far the task has come.

It looks at the session every other second and sends one datagram, which may get lost: the next
one holds everything again. Nothing waits for it, and without somebody who watches there is none.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Self

from spark_kafka_sink.spark.progress.task_progress import TaskProgress, WaitsFor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from spark_kafka_sink.producer.session import ProducerSession
    from spark_kafka_sink.report.task_report import TaskInfo
    from spark_kafka_sink.spark.progress.address import ProgressAddress


class TaskReporter:
    """Used around a task's writing, as a context manager; by one thread.

    Args:
        address: who watches; None where nobody does, and then nothing here costs anything.
        task: Spark's numbers of it.
    """

    def __init__(self, address: ProgressAddress | None, task: TaskInfo) -> None:
        self._address = address
        self._task = task
        self._began = monotonic()
        self._end = Event()
        self._thread: Thread | None = None

        # Writer's thread writes, the reporter's reads: a stale value is shown a moment late.
        self._session: ProducerSession | None = None
        self._rows = 0
        self._waits_for_spark = True
        self._flushing = False

    def __enter__(self) -> Self:
        if self._address is not None:
            self._thread = Thread(target=self._run, name="kafkaprod-progress", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._end.set()
            self._thread.join()

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The same batches; what comes after the last one is the flush."""
        return batches if self._address is None else self._watched(batches)

    def attach(self, session: ProducerSession) -> ProducerSession:
        """The session that the task writes with from now on."""
        self._session = session
        return session

    def _watched(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._waits_for_spark = False
            self._rows += batch.num_rows
            yield batch
            self._waits_for_spark = True
        self._waits_for_spark, self._flushing = False, True

    def _run(self) -> None:
        address = self._address
        if address is None:
            return
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            place = address.host, address.port
            ended = False
            while not ended:
                ended = self._end.wait(address.interval_s)
                with suppress(OSError):  # full, unreachable, or nobody there any more
                    sender.sendto(self._progress(done=ended).encode(address.token), place)

    def _progress(self, *, done: bool) -> TaskProgress:
        session = self._session
        counted = None if session is None else session.progress()
        return TaskProgress(
            partition_id=self._task.partition_id,
            task_attempt_id=self._task.task_attempt_id,
            elapsed_ms=round((monotonic() - self._began) * 1000),
            rows=self._rows,
            persisted=0 if counted is None else counted.persisted,
            sent=0 if counted is None else counted.sent,
            would_be_written=0 if counted is None else counted.would_be_written,
            bytes_sent=0 if counted is None else counted.bytes_sent,
            retries=0 if counted is None else counted.retries,
            waits_for=self._waits_for(
                connected=counted is None or counted.connected,
                buffer_full=counted is not None and counted.buffer_full,
            ),
            done=done,
        )

    def _waits_for(self, *, connected: bool, buffer_full: bool) -> WaitsFor:
        if not connected and not self._waits_for_spark:
            return WaitsFor.CONNECTION
        if buffer_full:
            return WaitsFor.KAFKA_ROOM
        if self._flushing:
            return WaitsFor.ACKNOWLEDGEMENT
        return WaitsFor.SPARK if self._waits_for_spark else WaitsFor.NOTHING
