"""Progress reports of a task, sent as datagrams to the driver's Python process.

A thread of the task reads the session's counters every other second and sends one datagram. A
datagram may get lost, because the next one contains all counters again. Only the end of the task
waits for this thread, and not for long; the thread does not exist without a listener.
"""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from spark_kafka_sink.report.progress_counts import ProgressCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from spark_kafka_sink.producer.session import ProducerSession
    from spark_kafka_sink.report.task_attempt import TaskAttempt


_NAME = "progress"
_MAX_END_S = 1.0
"""Maximum time in seconds for which a task's end waits for its last datagram. It takes longer if
the driver's name cannot be resolved.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressAddress:
    """A UDP port of the driver's Python process, and the interval between a task's datagrams."""

    host: str
    port: int
    token: str = field(repr=False)
    """A token required in each datagram, so that datagrams of other senders are ignored."""
    interval_s: float

    def publish(self, folder: Path) -> None:
        """Publish the address for planning, atomically replacing an earlier address."""
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{_NAME}-{self.port}"
        draft.write_text(json.dumps(asdict(self)), encoding="utf-8")
        draft.replace(folder / _NAME)

    @staticmethod
    def withdraw(folder: Path) -> None:
        """Remove the address after the listener has stopped."""
        (folder / _NAME).unlink(missing_ok=True)

    @classmethod
    def find(cls, folder: Path | None) -> ProgressAddress | None:
        """Return the published address, or None if there is no readable file."""
        if folder is None:
            return None
        try:
            return cls(**json.loads((folder / _NAME).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


class WaitsFor(StrEnum):
    """The main reason why a task waits."""

    SPARK = "rows from Spark"
    KAFKA_ROOM = "buffer memory, because Kafka is slower than Spark"
    CONNECTION = "a connection to a broker"
    ACKNOWLEDGEMENT = "the last acknowledgements"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress(ProgressCounts):
    """Counters of one task attempt since its start."""

    partition_id: int
    """Number of the Spark partition."""
    task_attempt_id: int
    """Spark's id of this attempt."""
    elapsed_ms: int = 0
    """Milliseconds since the attempt began."""
    rows: int = 0
    """Number of rows received from Spark."""
    waits_for: WaitsFor = WaitsFor.SPARK
    done: bool = False
    """True if the task has ended, successfully or not."""

    def encode(self, token: str) -> bytes:
        """Return a datagram for the listener with this token."""
        return json.dumps({"token": token, **asdict(self)}).encode()

    @classmethod
    def decode(cls, datagram: bytes, token: str) -> TaskProgress | None:
        """Parse a datagram, or return None if a different process sent it."""
        from hmac import compare_digest  # not for tasks, which only encode

        try:
            data: dict[str, Any] = json.loads(datagram)
            if not compare_digest(str(data["token"]).encode(), token.encode()):
                return None
            values = {field.name: data[field.name] for field in fields(cls)}
            numbers = {name: int(value) for name, value in values.items() if name in _NUMBERS}
            return cls(
                waits_for=WaitsFor(values["waits_for"]), done=bool(values["done"]), **numbers
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


_NUMBERS = frozenset(
    field.name for field in fields(TaskProgress) if field.name not in {"waits_for", "done"}
)


class ProgressSender:
    """Context manager around a task's write; used by one thread.

    Args:
        address: address of the listener. If None, there is no listener and the methods do nothing.
        task: Spark's numbers for the task.
    """

    def __init__(self, address: ProgressAddress | None, task: TaskAttempt) -> None:
        self._address = address
        self._task = task
        self._began = monotonic()
        self._end = Event()
        self._thread: Thread | None = None

        # The writer's thread writes these values, and the thread that sends the datagrams reads
        # them. The next datagram corrects a stale value.
        self._session: ProducerSession | None = None
        self._rows = 0
        self._waits_for_spark = True
        self._flushing = False

    def __enter__(self) -> Self:
        if self._address is not None:
            self._thread = Thread(
                target=self._send_periodically, name="kafkaprod-progress", daemon=True
            )
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._end.set()
            self._thread.join(_MAX_END_S)

    def watch(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """Return the same batches and count their rows.

        After the last batch, the task waits for the flush.
        """
        return batches if self._address is None else self._count_rows(batches)

    def attach(self, session: ProducerSession) -> ProducerSession:
        """Set the session that the task uses from now on."""
        self._session = session
        return session

    def _count_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self._waits_for_spark = False
            self._rows += batch.num_rows
            yield batch
            self._waits_for_spark = True
        self._waits_for_spark = False
        self._flushing = True

    def _send_periodically(self) -> None:
        address = self._address
        if address is None:
            return
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sender:
            sender.connect((address.host, address.port))  # This resolves the name, once.
            sender.setblocking(False)
            ended = False
            while not ended:
                ended = self._end.wait(address.interval_s)
                # The buffer is full, the listener is unreachable, or it has stopped.
                with suppress(OSError):
                    sender.send(self._current_progress(done=ended).encode(address.token))

    def _current_progress(self, *, done: bool) -> TaskProgress:
        session = self._session
        progress = None if session is None else session.progress()
        counts = ProgressCounts() if progress is None else progress.counts
        return TaskProgress(
            partition_id=self._task.partition_id,
            task_attempt_id=self._task.task_attempt_id,
            elapsed_ms=round((monotonic() - self._began) * 1000),
            rows=self._rows,
            waits_for=self._waits_for(
                is_connected=progress is None or progress.is_connected,
                is_buffer_full=progress is not None and progress.is_buffer_full,
            ),
            done=done,
            **asdict(counts),
        )

    def _waits_for(self, *, is_connected: bool, is_buffer_full: bool) -> WaitsFor:
        if not is_connected and not self._waits_for_spark:
            return WaitsFor.CONNECTION
        if is_buffer_full:
            return WaitsFor.KAFKA_ROOM
        if self._flushing:
            return WaitsFor.ACKNOWLEDGEMENT
        return WaitsFor.SPARK if self._waits_for_spark else WaitsFor.NOTHING
