"""A warm Spark session whose writes are timed by stage: `python -m tools.stages.child`.

Each worker replaces the functions in `STAGES` with timed versions. The CPU time of a stage excludes
nested stages.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import Any, Literal

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from spark_kafka_sink.spark.writer import KafkaProdWriter
from tools.benchmarks.spark.child import cpu, serve, start_session
from tools.benchmarks.spark.contestants import FLIGHT, SMALL_ROWS


class _Nested(threading.local):
    """CPU seconds of nested stages, for each stage that this thread is executing."""

    def __init__(self) -> None:
        self.stack: list[float] = []


class StageClock:
    """Collects CPU seconds by stage for all threads of this process."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._lock = threading.Lock()
        """Guards `seconds`."""
        self._nested = _Nested()

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function, so that its CPU time is added to the stage."""

        @wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            stack = self._nested.stack
            stack.append(0.0)
            began = thread_time()
            try:
                return function(*args, **named)
            finally:
                whole = thread_time() - began
                within = stack.pop()
                if stack:
                    stack[-1] += whole
                with self._lock:
                    self.seconds[stage] += whole - within

        return run

    def timed_items(self, stage: str, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items; the time to produce each item is added to the stage."""
        end = object()
        return iter(self.timed(stage, partial(next, iter(items), end)), end)


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a worker's thread; `function` is `module:name` or `module:Class.name`."""

    thread: Literal["writer", "sender"]
    name: str
    function: str


_PACKAGE = "spark_kafka_sink."
READ = Stage("writer", "pyspark reads Arrow batches from the JVM", "")
WRITE = Stage("writer", "the rest of the writer", "")
STAGES = (
    READ,
    Stage("writer", "columns are read and checked", "spark.columns:read_rows"),
    Stage("writer", "sizes", "producer.append.validator:size_bounds"),
    Stage(
        "writer",
        "partitions: murmur2 of the keys",
        "producer.append.partitioner:Partitioner.assign",
    ),
    Stage("writer", "plan: batches, order", "producer.append.planner:plan"),
    Stage("writer", "encode: varints and views", "producer.append.planner:encode_records"),
    Stage("writer", "encode: all fields copied, one cast", "records.encoder:RowBuilder.join"),
    Stage("writer", "appended to open batches", "producer.buffer.accumulator:Accumulator.append"),
    WRITE,
    Stage("sender", "batches are drained", "producer.send.drainer:Drainer.drain"),
    Stage("sender", "requests", "producer.send.sender:produce_request"),
    Stage("sender", "checksum, in requests", "records.record_batch:BatchHeader.pack"),
    Stage(
        "sender",
        "bytes written to the socket",
        "client.broker_connection:BrokerConnection.flush",
    ),
    Stage("sender", "wait for the network, responses", "client.network:Network.poll"),
    Stage(
        "sender",
        "responses are processed",
        "producer.send.response_handler:ResponseHandler.handle_response",
    ),
    Stage("sender", "the rest of the sender", "producer.send.sender:Sender.run_once"),
)


def place(stage: Stage) -> tuple[object, str]:
    """Return the module or class that contains a stage's function, and the function's name."""
    module, path = stage.function.split(":")
    owner: object = import_module(_PACKAGE + module)
    *classes, name = path.split(".")
    for each in classes:
        owner = getattr(owner, each)
    return owner, name


def install(clock: StageClock) -> None:
    """Replace the functions of this process with timed versions."""
    for stage in STAGES:
        if stage.function:
            owner, name = place(stage)
            setattr(owner, name, clock.timed(stage.name, getattr(owner, name)))


NAME = "stages-of-kafkaprod"
FOLDER = "KAFKAPROD_STAGES"
"""Environment variable with the folder for the results; workers inherit it."""
_CLOCK: list[StageClock] = []
"""The worker's clock, created when its first task starts."""


class StagedDataSource(KafkaProdDataSource):
    """`format("kafkaprod")` with a clock."""

    @classmethod
    def name(cls) -> str:
        """Return a name that differs from that of the sink, which is not timed."""
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> StagedWriter:  # type: ignore[override]
        """Return the sink's writer with a clock."""
        writer = super().writer(schema, overwrite)
        assert isinstance(writer, KafkaProdWriter)
        return StagedWriter(writer)


class StagedWriter(DataSourceArrowWriter):
    """A writer that saves each task's seconds per stage to a file."""

    def __init__(self, writer: KafkaProdWriter) -> None:
        self._writer = writer

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:  # type: ignore[override]
        """Write the rows of one task."""
        clock = _clock()
        clock.seconds.clear()
        batches = clock.timed_items(READ.name, iterator)
        message = clock.timed(WRITE.name, self._writer.write)(batches)
        path = Path(os.environ[FOLDER]) / f"{uuid.uuid4().hex}.json"
        path.write_text(json.dumps(clock.seconds))
        return message  # type: ignore[no-any-return]

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit with the sink's writer."""
        self._writer.commit(messages)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort with the sink's writer."""
        self._writer.abort(messages)


def _clock() -> StageClock:
    if not _CLOCK:
        _CLOCK.append(StageClock())
        install(_CLOCK[0])
    return _CLOCK[0]


def _run(spark: SparkSession, order: dict[str, Any]) -> dict[str, Any]:
    """Write keyed events; return the CPU seconds of the processes, and of each stage if timed."""
    for name, value in SMALL_ROWS.items():
        spark.conf.set(name, value)
    spark.dataSource.register(StagedDataSource)
    folder = Path(os.environ[FOLDER])
    for earlier in folder.iterdir():
        earlier.unlink()
    frame = spark.read.parquet(order["events"]).withColumn("key", expr(FLIGHT))
    used = cpu()
    _write(frame, NAME if order["timed"] else "kafkaprod", order)
    spent = cpu().since(used)
    seconds: Counter[str] = Counter()
    for each in folder.iterdir():
        seconds.update(json.loads(each.read_text()))
    return {"stages": seconds, **spent}


def _first(spark: SparkSession, order: dict[str, Any]) -> dict[str, list[float]]:
    """Write once; return the CPU seconds of each daemon and its workers, by module."""
    _write(spark.read.parquet(order["events"]), "kafkaprod", order)
    found = {}
    for jvm in psutil.Process().children():
        for daemon in jvm.children():
            # A child may have exited, such as Spark's check of the Python version.
            with suppress(psutil.NoSuchProcess):
                module, workers = daemon.cmdline()[-1], daemon.children()
                found[module] = [_cpu_s(daemon), sum(map(_cpu_s, workers))]
    return found


def _write(frame: DataFrame, format_: str, order: dict[str, Any]) -> None:
    write = frame.write.format(format_).mode("append").option("topic", order["topic"])
    write.option("kafka.bootstrap.servers", order["bootstrap_servers"]).save()


def _cpu_s(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:2]))


def _answer(spark: SparkSession, order: dict[str, Any]) -> object:
    return _run(spark, order) if "timed" in order else _first(spark, order)


def main() -> None:
    """Execute orders until the end of the input."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ[FOLDER] = folder
        serve(start_session(), _answer)


if __name__ == "__main__":
    main()
