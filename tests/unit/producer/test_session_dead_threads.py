"""Threads that die: all waits for them end soon, whatever the error."""

import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event, Thread
from types import MappingProxyType
from typing import NoReturn
from unittest.mock import patch

import pyarrow as pa
import pytest

from spark_kafka_sink.common.errors import DeliveryError, KafkaProdError
from spark_kafka_sink.config.throttling import RateLimits, ThrottlingConfig
from spark_kafka_sink.kafka.client.broker_meters import BrokerMeters
from spark_kafka_sink.kafka.client.client import Loop
from spark_kafka_sink.kafka.client.cluster_snapshot import ClusterSnapshot, Node
from spark_kafka_sink.kafka.records.columns import Columns
from spark_kafka_sink.producer import session_pool as pool
from spark_kafka_sink.producer.buffer.accumulator import Accumulator
from spark_kafka_sink.producer.buffer.batch import ProducerBatch
from spark_kafka_sink.producer.producer_client import ProducerClient
from spark_kafka_sink.producer.rows import Rows
from spark_kafka_sink.producer.send.batch_completer import BatchCompleter
from spark_kafka_sink.producer.session import ProducerSession
from spark_kafka_sink.producer.session_settings import SessionSettings
from tests.support.harness.offline import config, topic
from tests.support.waiting import wait_until
from tools.support.waiting import poll

SOON = 10.0
"""Seconds in which a wait must end; what is waited for would never come."""
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
OPTIONS: dict[str, dict[str, object]] = {
    "reserve": {"buffer_memory": 20_000, "batch_size": 4_000},
    "share": {"buffer_memory": 40_000, "batch_size": 4_000},
}
SETTINGS = {
    "rate": SessionSettings(throttling=ThrottlingConfig(rates=RateLimits(records_per_second=0.01))),
    "reserve": SessionSettings(throttling=ThrottlingConfig(buffer_share=100)),
    "share": SessionSettings(throttling=ThrottlingConfig(buffer_share=10)),
}


class PanicError(BaseException):
    """Like pyo3's PanicException, not a subclass of Exception."""


class UnprintableError(Exception):
    """An error whose text cannot be read."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS = [RuntimeError, MemoryError, SystemExit, KeyboardInterrupt, PanicError, UnprintableError]


def refused(*_: object) -> NoReturn:
    raise ConnectionRefusedError(111, "Connection refused")


def no_thread(_: Thread) -> NoReturn:
    """Fail like a system whose limit of processes is reached."""
    raise RuntimeError("can't start new thread")


@dataclass
class FaultyLoop:
    """A session's loop, whose iterations and crash report a test can replace."""

    loop: Loop
    iteration: Callable[[], object]
    report_error: type[BaseException] | None = None
    """Raised while a crash is reported."""

    def run_once(self) -> None:
        """See `Loop`."""
        self.iteration()

    def handle_crash(self, error: BaseException) -> None:
        """See `Loop`."""
        if self.report_error is None:
            self.loop.handle_crash(error)
            return
        with patch.object(BatchCompleter, "abandon", side_effect=self.report_error):
            self.loop.handle_crash(error)

    @property
    def broker_meters(self) -> BrokerMeters:
        """See `Loop`."""
        return self.loop.broker_meters

    def backlog(self, node_id: int, now: float) -> str:
        """See `Loop`."""
        return self.loop.backlog(node_id, now)


class FaultyClient(ProducerClient):
    """A client whose iterations, and those of its loop, a test can replace."""

    iteration: Callable[[], object] | None = None
    faulty_loop: FaultyLoop

    def attach(self, loop: Loop) -> None:
        """See `Client`."""
        self.faulty_loop = FaultyLoop(loop, loop.run_once)
        super().attach(self.faulty_loop)

    def _run_iteration(self) -> None:
        if self.iteration is None:
            super()._run_iteration()
        else:
            self.iteration()


def client_of(session: ProducerSession) -> FaultyClient:
    assert isinstance(session.client, FaultyClient)
    return session.client


@contextmanager
def running_session(
    settings: SessionSettings | None = None, **options: object
) -> Iterator[ProducerSession]:
    """Create a session with threads that knows its topic and whose broker is unreachable."""
    client = FaultyClient(config(linger_ms=0, **options), connect=refused)
    client.metadata.cluster = ClusterSnapshot(
        nodes=MappingProxyType({1: Node(1, "127.0.0.1", 9)}),
        topics=MappingProxyType({"t": topic("t", 2)}),
    )
    session = ProducerSession(client, settings=settings)
    try:
        yield session
    finally:
        within(lambda: pool.discard_session(session))


def within(work: Callable[[], object], seconds: float = SOON) -> BaseException | None:
    """Run `work` in another thread and return its exception; fail after `seconds`."""
    outcome: Future[BaseException | None] = Future()

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001
            outcome.set_result(error)
        else:
            outcome.set_result(None)

    Thread(target=run, daemon=True).start()
    return outcome.result(timeout=seconds)


def rows(count: int = 1, size: int = 10, name: str = "t") -> Rows:
    return Rows(columns=Columns(value=pa.array([b"x" * size] * count, pa.binary())), topics=(name,))


def keyed(chunk: Rows) -> Rows:
    """Set a key in each row, so that the partition count is required."""
    return replace(chunk, columns=replace(chunk.columns, key=chunk.columns.value))


def fill(session: ProducerSession) -> None:
    for _ in range(100):
        session.append(rows(count=10, size=1_000))


def append_and_flush(session: ProducerSession, chunk: Rows) -> None:
    session.append(chunk)
    session.flush()


WAITS: dict[str, Callable[[ProducerSession], object]] = {
    "flush": lambda session: append_and_flush(session, rows()),
    "reserve": fill,
    "topic": lambda session: session.append(keyed(rows(name="elsewhere"))),
    "topic later": lambda session: append_and_flush(session, rows(name="elsewhere")),
    "rate": fill,
    "share": fill,
}


def raising(error: type[BaseException]) -> Callable[[], NoReturn]:
    def raise_error() -> NoReturn:
        raise error

    return raise_error


def raise_in_loop(client: FaultyClient, error: type[BaseException]) -> None:
    client.faulty_loop.iteration = raising(error)


def raise_twice(client: FaultyClient, error: type[BaseException]) -> None:
    """The report of the error fails too."""
    client.faulty_loop.report_error = error
    raise_in_loop(client, error)


def die_silently(client: FaultyClient, error: type[BaseException]) -> None:
    """The thread ends without reporting an error."""
    client.iteration = raising(error)


DEATHS = [raise_in_loop, raise_twice, die_silently]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("death", DEATHS)
@pytest.mark.parametrize("wait", WAITS)
def test_wait_ends_if_the_sender_dies(
    wait: str,
    death: Callable[[FaultyClient, type[BaseException]], None],
    error: type[BaseException],
) -> None:
    with running_session(SETTINGS.get(wait), **OPTIONS.get(wait, {})) as session:
        changed = session.buffer.state.changed
        wait_for_change = changed.wait

        def die_and_wait(seconds: float) -> bool:
            death(client_of(session), error)
            return wait_for_change(seconds)

        with patch.object(changed, "wait", die_and_wait):
            caught = within(lambda: WAITS[wait](session))
        assert isinstance(caught, DeliveryError)
        assert "sender thread" in str(caught)


@pytest.mark.parametrize("wait", WAITS)
def test_wait_ends_if_the_sender_thread_stalls(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kafka_sink.kafka.client.client._STALLED_S", 0.6)
    released = Event()
    with running_session(SETTINGS.get(wait), **OPTIONS.get(wait, {})) as session:
        client_of(session).faulty_loop.iteration = released.wait
        caught = within(lambda: WAITS[wait](session))
        assert isinstance(caught, DeliveryError)
        assert "no progress" in str(caught)
        assert "in wait" in str(caught)  # the function in which the thread waits
        assert not session.client.is_reusable
        assert within(lambda: pool.discard_session(session)) is None
        released.set()
        assert session.client._thread is not None
        session.client._thread.join(SOON)
        assert not session.client._thread.is_alive()


def test_slow_iteration_is_not_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_kafka_sink.kafka.client.client._STALLED_S", 0.8)
    with running_session(delivery_timeout_ms=1_500, request_timeout_ms=500) as session:

        def slow() -> None:
            time.sleep(0.3)  # an iteration that is slow, but shorter than a stall
            session.sender.run_once()

        client_of(session).faulty_loop.iteration = slow
        caught = within(lambda: WAITS["flush"](session))
        assert "delivery.timeout.ms" in str(caught)


def test_many_short_waits_are_not_a_stall() -> None:
    """A rate limit makes the writer wait for less than a millisecond at a time."""
    released, entered = Event(), Event()

    def block() -> None:
        entered.set()
        released.wait()

    with running_session() as session:
        client_of(session).faulty_loop.iteration = block
        session.client.network.wakeup()
        assert entered.wait(SOON)
        try:
            for _ in range(400):
                session.buffer.state.wait_for(lambda: False, 0.0005)
            assert not session.client.is_dead
        finally:
            released.set()


def test_records_have_a_status_after_the_sender_thread_died() -> None:
    with running_session() as session:
        die_silently(client_of(session), SystemExit)
        caught = within(lambda: WAITS["flush"](session))
        assert isinstance(caught, DeliveryError)
        assert sum(status.records for status in caught.statuses) == 1


@pytest.mark.parametrize("error", ERRORS)
def test_wait_ends_if_compression_fails(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    def compress_records(*_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(ProducerBatch, "compress_records", compress_records)
    with running_session(compression_type="lz4") as session:
        caught = within(lambda: WAITS["flush"](session))
        assert isinstance(caught, DeliveryError)
        assert sum(status.records for status in caught.statuses) == 1


def test_wait_ends_if_processing_of_compressed_batches_fails() -> None:
    with (
        patch.object(Accumulator, "store_compressed", side_effect=PanicError),
        running_session(compression_type="lz4") as session,
    ):
        caught = within(lambda: WAITS["flush"](session))
        assert isinstance(caught, DeliveryError)


@pytest.mark.parametrize("wait", ["flush", "reserve", "share"])
def test_wait_ends_if_the_codec_thread_died(wait: str) -> None:
    options = OPTIONS.get(wait, {})
    with running_session(SETTINGS.get(wait), compression_type="lz4", **options) as session:
        session.append(rows())
        number = codec_thread_id()
        wait_until(lambda: not session.buffer.accumulator._compressor._pending)
        time.sleep(0.05)  # the idle thread waits for the next batch
        victim = ctypes.c_ulong(number)
        assert ctypes.pythonapi.PyThreadState_SetAsyncExc(victim, ctypes.py_object(SystemExit)) == 1
        caught = within(lambda: WAITS[wait](session))
        assert isinstance(caught, DeliveryError)
        assert "codec thread" in str(caught)


def codec_thread_id() -> int:
    """Return the id of the codec thread, which starts with the first batch."""

    def find() -> int | None:
        names = {thread.name: thread.ident for thread in threading.enumerate()}
        return next((names[name] for name in names if name.startswith("kafkaprod-codec")), None)

    number = poll(find, SOON, 0.001)
    assert number is not None, "no batch is compressed"
    return number


@pytest.mark.parametrize("error", ERRORS)
def test_client_with_dead_thread_detaches_and_accepts_nothing(error: type[BaseException]) -> None:
    with running_session() as session:
        client = client_of(session)
        die_silently(client, error)
        await_death(client)
        assert within(client.detach) is None
        assert isinstance(within(lambda: client.attach(session.sender)), KafkaProdError)


@pytest.mark.parametrize("change", ["attach", "detach"])
def test_thread_that_dies_while_loops_change_is_not_waited_for(change: str) -> None:
    with running_session() as session:
        client, entered = client_of(session), Event()

        def slow_death() -> NoReturn:
            entered.set()
            wait_until(lambda: client._switches)  # the change begins before the death
            raise SystemExit

        client.iteration = slow_death
        assert entered.wait(SOON)
        if change == "detach":
            assert within(client.detach) is None
        else:
            caught = within(lambda: client.attach(session.sender))
            assert isinstance(caught, KafkaProdError)


def test_next_task_gets_a_new_client_after_thread_death(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "ProducerClient", FaultyClient)
    settings = config(client_id="dead-threads")
    session = pool.borrow_session(settings)
    pool.give_back_session(session)
    die_silently(client_of(session), SystemExit)
    session.client.network.wakeup()
    await_death(session.client)
    following = pool.borrow_session(settings)
    assert following.client is not session.client
    assert following.identity is not session.identity
    within(lambda: pool.discard_session(following))


@pytest.mark.parametrize(
    "work",
    [
        lambda session: session.append(rows()),
        lambda session: session.flush(),
        lambda session: session.client.attach(session.sender),
    ],
)
def test_forked_child_reports_missing_threads(work: Callable[[ProducerSession], object]) -> None:
    """A lock that a thread held at the fork stays locked in the child."""
    with running_session() as session:
        session.append(rows())
        held, done = Event(), Event()
        holder = Thread(target=hold, args=(session, held, done))
        holder.start()
        assert held.wait(SOON)
        child = os.fork()
        if child == 0:
            as_child(session, work)
        done.set()
        holder.join()
        assert exit_code(child) == 0
        assert not session.client.is_dead


def hold(session: ProducerSession, held: Event, done: Event) -> None:
    with session.buffer.state.lock:
        held.set()
        done.wait(SOON)


def as_child(session: ProducerSession, work: Callable[[ProducerSession], object]) -> NoReturn:
    code = 1
    try:
        work(session)
    except KafkaProdError as error:
        code = 0 if "fork" in str(error) else 2
    except BaseException:  # noqa: BLE001
        code = 3
    try:
        pool.discard_session(session)
    except BaseException:  # noqa: BLE001
        code = 4
    os._exit(code)


def exit_code(child: int) -> int:
    def status() -> tuple[int, ...]:
        pid, code = os.waitpid(child, os.WNOHANG)
        return (os.waitstatus_to_exitcode(code),) if pid else ()

    if ended := poll(status, SOON):
        return ended[0]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child waits for ever")


def await_death(client: ProducerClient) -> None:
    thread = client._thread
    assert thread is not None
    thread.join(SOON)
    assert not thread.is_alive()


def test_sender_thread_that_the_system_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Thread, "start", no_thread)
    client = ProducerClient(config(linger_ms=0), connect=refused)
    with pytest.raises(DeliveryError, match="the sender thread cannot start") as caught:
        ProducerSession(client)
    assert "ulimit -u" in str(caught.value)
    client.close()
