"""A producer session, a fake cluster and a clock, moved on together step by step."""

from __future__ import annotations

import time
from collections import Counter, deque
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from spark_kafka_sink.common.clock import ManualClock
from spark_kafka_sink.common.delivery_status import DeliveryStatus
from spark_kafka_sink.producer.error_tolerance import Rows
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.records.columns import Columns
from spark_kafka_sink.report.task_report import TaskInfo
from tests.support.harness.fake import FakeCluster, Fault
from tests.support.harness.offline import START_MS, ManualClient, config
from tests.support.harness.sasl import ManualSteps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spark_kafka_sink.config.security.model import SecurityConfig
    from spark_kafka_sink.producer.context import SessionSettings
    from spark_kafka_sink.producer.producer_id import ProducerState
    from spark_kafka_sink.producer.transactions.state import TransactionSettings
    from spark_kafka_sink.report.delivery_report import DeliveryReport

T = TypeVar("T")
TICK = 0.005
PATIENCE = 60.0
MANY_STEPS = 4_000


class ManualExecutor(Executor):
    """Does the codec thread's work when a step begins."""

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

    `learn`: begin with a client that knows the topics.
    """

    def __init__(
        self,
        cluster: FakeCluster,
        settings: SessionSettings | None = None,
        *,
        security: SecurityConfig | None = None,
        learn: bool = True,
        clock: ManualClock | None = None,
        transaction: TransactionSettings | None = None,
        **options: object,
    ) -> None:
        self.cluster = cluster
        self._transaction = transaction
        self._settings = settings
        self.clock = clock or ManualClock(seconds=100.0, start_ms=START_MS)
        defaults = {"linger_ms": 0, "bootstrap_servers": "127.0.0.1:40000", "batch_size": 1_000}
        self.config = config(**{**defaults, **options})
        if security is not None:
            self.config = replace(self.config, security=security)
        self.logins = ManualSteps()
        self.client = ManualClient(self.config, self.clock, cluster.connect, self.logins)
        self.appended = 0
        self.session = self._open(None)
        if learn:
            self.learn()

    def _open(self, identity: ProducerState | None) -> ProducerSession:
        self.codec = ManualExecutor()
        return ProducerSession(self.client, identity, self._settings, self.codec, self._transaction)

    def next_session(self, topics: tuple[str, ...] | None = None) -> None:
        """Another task on the same client and identity, which wants these topics, or all."""
        self.session.close()
        self.session = self._open(self.session.producer_state)
        self.appended = 0
        self.learn(topics)

    def learn(self, topics: tuple[str, ...] | None = None) -> None:
        """Let the client learn of these topics, or of all."""
        names = tuple(self.cluster.ids) if topics is None else topics
        self.session._topics.want(names)
        self.run(lambda: all(name in self.client.metadata.cluster.topics for name in names))

    def step(self, tick: float = TICK) -> None:
        """One turn of the sender, then of the brokers; the clock moves by `tick` seconds."""
        self.codec.run()
        self.client.network.wakeup()  # so that it does not wait for real time to pass
        self.session._sender.run_once()
        for seen in self.cluster.seen:
            seen.at = seen.at or self.clock.monotonic()
        self.cluster.pump()
        self.clock.advance(tick)

    def run(self, done: Callable[[], bool], tick: float = TICK) -> None:
        """Steps until `done`."""
        for _ in range(MANY_STEPS):
            if done():
                return
            self.step(tick)
        raise AssertionError("it takes for ever")

    def steps(self, count: int, tick: float = TICK) -> None:
        """So many steps."""
        for _ in range(count):
            self.step(tick)

    def send(self, values: list[bytes], partition: int | None = 0, topic: str = "t") -> None:
        """Append values to a partition, or without one and without keys, in one chunk."""
        self.appended += len(values)
        asked = None if partition is None else pa.array([partition] * len(values), pa.int32())
        self.session.append(
            Rows(
                columns=Columns(value=pa.array(values, pa.binary())),
                topics=(topic,),
                partition=asked,
            )
        )

    def send_batches(self, count: int, partition: int | None = 0, topic: str = "t") -> list[bytes]:
        """So many full batches of three records each; the values are returned."""
        values = [b"%06d" % number + b"." * 270 for number in range(3 * count)]
        self.send(values, partition, topic)
        return values

    def append_stepping(self, rows: Rows, tick: float = TICK) -> None:
        """Append in another thread, and turn the clock until that is done; raises what it did."""
        self.stepping(partial(self.session.append, rows), tick)

    @contextmanager
    def writer_waiting(self) -> Iterator[None]:
        """While the block runs, the writer waits for memory."""
        accumulator, released = self.session._accumulator, Event()
        waiting = Thread(
            target=lambda: accumulator.pool.wait_for_room(released.is_set, 1), daemon=True
        )
        waiting.start()
        while accumulator.pool.waiting_since is None:
            time.sleep(0.001)
        yield
        released.set()
        accumulator.state.notify()
        waiting.join(PATIENCE)

    def stepping(self, call: Callable[[], T], tick: float = TICK) -> T:
        """What `call` returns or raises, in another thread, while the clock is turned."""
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(call())
            except BaseException as error:  # noqa: BLE001
                outcome.set_exception(error)

        Thread(target=run, daemon=True).start()
        deadline = time.monotonic() + PATIENCE
        while not outcome.done():
            assert time.monotonic() < deadline, "it takes for ever"
            self.step(tick)
            with self.session._accumulator.state.lock:
                self.session._accumulator.state.changed.notify_all()
        return outcome.result()

    def finish(self, tick: float = TICK) -> None:
        """Steps until every batch is complete; raises what ended the session."""
        state = self.session._accumulator.state
        self.run(lambda: state.error is not None or not state.incomplete, tick)
        self.session.flush()

    def fault(self, *faults: Fault | None) -> None:
        """What happens to the next Produce requests."""
        self.cluster.faults.extend(faults)

    def report(self) -> DeliveryReport:
        """The session's report so far."""
        return self.session.report(TaskInfo())

    def statuses(self) -> dict[DeliveryStatus, int]:
        """Records by what became of them."""
        found: Counter[DeliveryStatus] = Counter()
        for part in self.report().partitions:
            for status in DeliveryStatus:
                found[status] += getattr(part, status.value)
        return {status: count for status, count in found.items() if count}

    def check_accounts(self) -> None:
        """Every record has one outcome, persisted means in a log, and no memory is charged."""
        assert sum(self.statuses().values()) == self.appended
        self.check_accounts_of_memory()
        in_logs = sum(log.end for log in self.cluster.logs.values())
        assert self.statuses().get(DeliveryStatus.PERSISTED, 0) <= in_logs

    def check_accounts_of_memory(self) -> None:
        """Nothing is charged and nothing is waited for."""
        assert self.session._accumulator.pool.used == 0
        assert self.session._accumulator.state.incomplete == 0

    def close(self) -> None:
        """End all of it."""
        self.session.close()
        self.client.close()
        self.cluster.close()


@contextmanager
def world(
    cluster: FakeCluster | None = None,
    settings: SessionSettings | None = None,
    *,
    security: SecurityConfig | None = None,
    learn: bool = True,
    clock: ManualClock | None = None,
    transaction: TransactionSettings | None = None,
    **options: object,
) -> Iterator[World]:
    """A world that is closed at the end; by default one broker and a topic of 4 partitions."""
    made = World(
        cluster or FakeCluster(topics={"t": 4}),
        settings,
        security=security,
        learn=learn,
        clock=clock,
        transaction=transaction,
        **options,
    )
    try:
        yield made
    finally:
        made.close()
