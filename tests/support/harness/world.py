"""A producer session, a fake cluster and a clock that advance together step by step."""

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.common.errors import DeliveryError
from spark_kafka_sink.config.security.security_config import SecurityConfig
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer.buffer.session_buffer import SessionBuffer
from spark_kafka_sink.producer.producer_id import ProducerIdentity
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.send.sender import Sender
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_settings import SessionSettings
from spark_kafka_sink.producer.statistics.librdkafka_statistics import Statistics
from spark_kafka_sink.producer.transactions.transaction_settings import TransactionSettings
from spark_kafka_sink.report.delivery_report import DeliveryReport
from spark_kafka_sink.report.task_attempt import TaskAttempt
from tests.support.clock import ManualClock
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.offline import START_MS, ManualClient, config
from tests.support.harness.sasl import ManualCalls
from tests.support.waiting import wait_until

T = TypeVar("T")
TICK = 0.005
TIMEOUT_S = 60.0
MANY_STEPS = 4_000


class ManualExecutor(Executor):
    """Executes the tasks of the codec thread at the start of each step."""

    def __init__(self) -> None:
        self._work: deque[Callable[[], object]] = deque()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._work.append(partial(fn, *args, **kwargs))
        return Future()

    def run(self) -> None:
        while self._work:
            self._work.popleft()()

    def shutdown(self, *_: Any, **__: Any) -> None:
        self._work.clear()


class World:
    """Everything a test of the sender needs; `options` are producer options by Python name.

    `load_metadata`: load the metadata of all topics first.
    """

    def __init__(
        self,
        cluster: FakeCluster,
        settings: SessionSettings | None = None,
        *,
        security: SecurityConfig | None = None,
        load_metadata: bool = True,
        clock: ManualClock | None = None,
        transaction: TransactionSettings | None = None,
        **options: object,
    ) -> None:
        self.cluster = cluster
        self._transaction = transaction
        self.settings = settings
        self.clock = clock or ManualClock(seconds=100.0, start_ms=START_MS)
        defaults = {"linger_ms": 0, "bootstrap_servers": "127.0.0.1:40000", "batch_size": 1_000}
        self.config = config(**{**defaults, **options})
        if security is not None:
            self.config = replace(self.config, security=security)
        self.logins = ManualCalls()
        self.client = ManualClient(self.config, self.clock, cluster.connect, self.logins)
        self.appended = 0
        self.session = self._open(None)
        if load_metadata:
            self.load_metadata()

    def _open(self, identity: ProducerIdentity | None) -> ProducerSession:
        self.codec = ManualExecutor()
        return ProducerSession(
            self.client,
            identity=identity,
            settings=self.settings,
            executor=self.codec,
            transaction=self._transaction,
        )

    def next_session(self, topics: tuple[str, ...] | None = None) -> None:
        """Open a session for the next task, with the same client and producer id.

        Load the metadata of `topics`, or of all topics.
        """
        self.session.close()
        self.session = self._open(self.session.identity)
        self.appended = 0
        self.load_metadata(topics)

    @property
    def sender(self) -> Sender:
        """The sender of the current session."""
        return self.session.sender

    @property
    def statistics(self) -> Statistics:
        """The statistics of the current session."""
        assert isinstance(self.sender.statistics, Statistics)
        return self.sender.statistics

    @property
    def buffer(self) -> SessionBuffer:
        """The buffer of the current session."""
        return self.session.buffer

    def add_topics(self, names: tuple[str, ...]) -> None:
        """Add topics whose metadata the session needs."""
        self.session.topics.add_topics(names)

    def load_metadata(self, topics: tuple[str, ...] | None = None) -> None:
        """Run until the client has the metadata of `topics`, or of all topics."""
        names = tuple(self.cluster.ids) if topics is None else topics
        self.add_topics(names)
        self.run(lambda: all(name in self.client.metadata.cluster.topics for name in names))

    def step(self, tick: float = TICK) -> None:
        """Run the sender once, then the brokers, and advance the clock by `tick` seconds."""
        self.codec.run()
        self.client.network.wakeup()  # so that it does not wait for real time to pass
        self.sender.run_once()
        for seen in self.cluster.seen:
            seen.at = seen.at or self.clock.monotonic()
        self.cluster.pump()
        self.clock.advance(tick)

    def run(self, done: Callable[[], bool], tick: float = TICK) -> None:
        """Run steps until `done` returns True."""
        for _ in range(MANY_STEPS):
            if done():
                return
            self.step(tick)
        raise AssertionError("timeout")

    def steps(self, count: int, tick: float = TICK) -> None:
        """Run `count` steps."""
        for _ in range(count):
            self.step(tick)

    def send(self, values: list[bytes], partition: int | None = 0, topic: str = "t") -> None:
        """Append values in one chunk, to a partition or without a partition and keys."""
        self.appended += len(values)
        requested = None if partition is None else pa.array([partition] * len(values), pa.int32())
        self.session.append(
            Rows(
                columns=Columns(value=pa.array(values, pa.binary())),
                topics=(topic,),
                partition=requested,
            )
        )

    def send_batches(self, count: int, partition: int | None = 0, topic: str = "t") -> list[bytes]:
        """Append `count` full batches of three records each and return the values."""
        values = [b"%06d" % number + b"." * 270 for number in range(3 * count)]
        self.send(values, partition, topic)
        return values

    def deliver(self, values: list[bytes], partition: int | None = 0, topic: str = "t") -> None:
        """Append values in one chunk, and run until every batch is complete."""
        self.send(values, partition, topic)
        self.finish()

    def deliver_batches(
        self, count: int, partition: int | None = 0, topic: str = "t"
    ) -> list[bytes]:
        """Append `count` full batches, run until every batch is complete, and return the values."""
        values = self.send_batches(count, partition, topic)
        self.finish()
        return values

    def close_batches(self) -> None:
        """Close all open batches, as a flush does."""
        self.buffer.accumulator.close_open()

    def append_while_stepping(self, rows: Rows, tick: float = TICK) -> None:
        """Append in another thread, and run steps until that call returns or raises."""
        self.run_while_stepping(partial(self.session.append, rows), tick)

    @contextmanager
    def blocked_writer(self) -> Iterator[None]:
        """Block a writer thread on the memory limit while the context is active."""
        pool, released = self.buffer.pool, Event()
        waiting = Thread(target=lambda: pool.wait_for_room(released.is_set, 1), daemon=True)
        waiting.start()
        wait_until(lambda: pool.writer_waiting_since is not None)
        yield
        released.set()
        self.buffer.state.wake_writer()
        waiting.join(TIMEOUT_S)

    def run_while_stepping(self, call: Callable[[], T], tick: float = TICK) -> T:
        """Run `call` in another thread, and run steps until it returns or raises."""
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:  # noqa: BLE001
                outcome.set_exception(error)

        Thread(target=run, daemon=True).start()
        deadline = time.monotonic() + TIMEOUT_S
        while not outcome.done():
            assert time.monotonic() < deadline, "timeout"
            self.step(tick)
            self.buffer.state.wake_writer()
        return outcome.result()

    def finish(self, tick: float = TICK) -> None:
        """Run steps until every batch is complete; raise the error of the session, if any."""
        state = self.buffer.state
        self.run(lambda: state.error is not None or not state.incomplete_batches, tick)
        self.session.flush()

    def await_failure(self, tick: float = TICK) -> DeliveryError:
        """Run until the session fails; check that the error has the status of each lost record."""
        with pytest.raises(DeliveryError) as caught:
            self.finish(tick)
        self.check_accounting()
        counts: Counter[DeliveryStatus] = Counter()
        for status in caught.value.statuses:
            counts[status.status] += status.records
        lost = {s: n for s, n in self.statuses().items() if s is not DeliveryStatus.PERSISTED}
        assert counts == lost
        return caught.value

    def fault(self, *faults: Fault | None) -> None:
        """Inject faults into the next Produce requests."""
        self.cluster.faults.extend(faults)

    def report(self) -> DeliveryReport:
        """Return the report of the session so far."""
        return self.session.report(TaskAttempt())

    def statuses(self) -> dict[DeliveryStatus, int]:
        """Return the number of records for each delivery status."""
        counts: Counter[DeliveryStatus] = Counter()
        for part in self.report().partitions:
            for status in DeliveryStatus:
                counts[status] += getattr(part, status.value)
        return {status: count for status, count in counts.items() if count}

    def check_accounting(self) -> None:
        """Check that each record has one status, persisted ones are in a log, no memory is used."""
        assert sum(self.statuses().values()) == self.appended
        self.check_memory_accounting()
        in_logs = sum(log.end for log in self.cluster.logs.values())
        assert self.statuses().get(DeliveryStatus.PERSISTED, 0) <= in_logs

    def check_memory_accounting(self) -> None:
        """Check that no memory is in use and no batch is incomplete."""
        assert self.buffer.pool.used == 0
        assert self.buffer.state.incomplete_batches == 0

    def close(self) -> None:
        """Close the session, the client and the cluster."""
        self.session.close()
        self.client.close()
        self.cluster.close()


@contextmanager
def world(
    cluster: FakeCluster | None = None,
    settings: SessionSettings | None = None,
    *,
    security: SecurityConfig | None = None,
    load_metadata: bool = True,
    clock: ManualClock | None = None,
    transaction: TransactionSettings | None = None,
    **options: object,
) -> Iterator[World]:
    """Open a world; by default with one broker and the topic `t` with four partitions."""
    sim = World(
        cluster or FakeCluster(topics={"t": 4}),
        settings,
        security=security,
        load_metadata=load_metadata,
        clock=clock,
        transaction=transaction,
        **options,
    )
    try:
        yield sim
    finally:
        sim.close()
