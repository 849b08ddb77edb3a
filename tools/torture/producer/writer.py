"""The sessions of a run, which write numbered rows, and their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from spark_kafka_sink import DeliveryReport
from spark_kafka_sink.common.errors import KafkaProdError
from spark_kafka_sink.config.sink_config import ProducerConfig
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer import session_pool as pool
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.report.report_builder import FinishedBatch
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tools.torture.producer.plan import Partitioning, Plan

_MANY_RECORDS = 20_000
_SLOW_S = 0.05
_EMPTY_SESSIONS = 0.15


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledged batch; `base_offset` is -1 if the response did not contain it."""

    partition: int
    base_offset: int
    records: int


@dataclass(slots=True, kw_only=True)
class SessionResult:
    """The result of a session.

    The session called `append` for `attempted` rows, of which the first `accepted` succeeded.
    `error` ended the session; `append_error` did not. Times are in seconds.
    """

    session: int
    attempted: int = 0
    accepted: int = 0
    error: BaseException | None = None
    append_error: KafkaProdError | None = None
    report: DeliveryReport = field(default_factory=DeliveryReport)
    acks: list[Ack] = field(default_factory=list)
    longest_flush: float = 0.0


class Writer:
    """Writes in a separate thread; `connection` contains the options to connect to the cluster."""

    def __init__(self, plan: Plan, connection: Mapping[str, str], topic: str, debug: str) -> None:
        self.done: list[SessionResult] = []
        self.records = 0
        self._plan = plan
        self.topic = topic
        self._random = Random(f"{plan.seed}/writer")
        named = {f"kafka.{name}": value for name, value in plan.options}
        extra = {**connection, "kafka.client.id": topic}
        if debug:
            extra["kafka.debug"] = debug
        self._config = ProducerConfig.parse({**named, **extra})

    def run(self, is_over: Callable[[], bool]) -> None:
        """Run sessions until `is_over`, but at least the planned number."""
        while len(self.done) < self._plan.sessions or not is_over():
            if self._random.random() < _EMPTY_SESSIONS:
                pool.give_back_session(pool.borrow_session(self._config))
            self._session(SessionResult(session=len(self.done)), is_over)

    def _session(self, written: SessionResult, is_over: Callable[[], bool]) -> None:
        self.done.append(written)
        session = pool.borrow_session(self._config)
        _listen(session, written)
        try:
            try:
                self._fill(session, written, is_over)
            finally:
                self._flush(session, written)
        except KafkaProdError as error:
            written.error = error
        except BaseException as error:
            written.error = error
            pool.discard_session(session)
            raise
        written.report = session.report(TaskAttempt())
        if written.error is None and written.append_error is None:
            pool.give_back_session(session)
        else:
            pool.discard_session(session)
            time.sleep(0.2)

    def _fill(
        self, session: ProducerSession, written: SessionResult, is_over: Callable[[], bool]
    ) -> None:
        plan = self._plan
        for _ in range(plan.chunks):
            chunk = self._rows(written)
            written.attempted += plan.rows
            self.records += plan.rows
            try:
                session.append(chunk)
            except KafkaProdError as error:
                written.append_error = error
                return
            written.accepted = written.attempted
            time.sleep(plan.pause_ms / 1000 if self.records < _MANY_RECORDS else _SLOW_S)
            if self.records >= _MANY_RECORDS and is_over():
                return

    def _flush(self, session: ProducerSession, written: SessionResult) -> None:
        started = time.monotonic()
        try:
            session.flush()
        finally:
            written.longest_flush = time.monotonic() - started

    def _rows(self, written: SessionResult) -> Rows:
        plan = self._plan
        numbers = range(written.attempted, written.attempted + plan.rows)
        values = [value(plan, written.session, number) for number in numbers]
        keys = [b"key-%d" % (number % 17) for number in numbers]
        places = [partition_of(plan, number) for number in numbers]
        return Rows(
            columns=Columns(
                value=pa.array(values, pa.binary()),
                key=pa.array(keys, pa.binary())
                if plan.partitioning is Partitioning.KEYED
                else None,
            ),
            topics=(self.topic,),
            partition=(
                pa.array(places, pa.int32()) if plan.partitioning is Partitioning.EXPLICIT else None
            ),
        )


def value(plan: Plan, session: int, number: int) -> bytes:
    """Return the value of a row: its session, its number, and padding."""
    text = b"%d:%d:" % (session, number)
    return text + b"." * (number * 7 % (plan.value_size + 1))


def partition_of(plan: Plan, number: int) -> int:
    """Return the explicit partition of a row: round robin with some repetitions."""
    return number // 3 % plan.partitions


def close_sessions() -> None:
    """Close the idle clients in the pool."""
    pool.idle_clients.close()


def _listen(session: ProducerSession, written: SessionResult) -> None:
    report = session.reporting.builder
    original = report.count_acknowledged

    def acknowledged(batch: FinishedBatch, base_offset: int | None) -> None:
        offset = -1 if base_offset is None else base_offset
        written.acks.append(Ack(batch.partition, offset, batch.records))
        original(batch, base_offset)

    report.count_acknowledged = acknowledged  # type: ignore[method-assign]
