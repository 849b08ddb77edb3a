"""A data source whose writes are timed by stage.

Each worker replaces the functions in `STAGES` with timed versions. The CPU time of a stage excludes
nested stages.
"""

import json
import os
import threading
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial, wraps
from importlib import import_module
from pathlib import Path
from time import thread_time
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from spark_kafka_sink.spark.datasource import KafkaProdDataSource
from spark_kafka_sink.spark.writers.data_source_writers import KafkaProdWriter, SparkCommitMessage


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
    Stage("writer", "columns are read and checked", "spark.rows.rows_from_arrow:read_rows"),
    Stage("writer", "sizes", "producer.append.validator:size_bounds"),
    Stage(
        "writer",
        "partitions: murmur2 of the keys",
        "producer.append.partitioner:Partitioner.assign",
    ),
    Stage("writer", "plan: batches, order", "producer.append.chunk_encoder:plan"),
    Stage("writer", "encode: varints and views", "producer.append.chunk_encoder:encode_records"),
    Stage(
        "writer",
        "encode: all fields copied, one cast",
        "kafka.records.record_encoder:RowBuilder.join",
    ),
    Stage("writer", "appended to open batches", "producer.buffer.accumulator:Accumulator.append"),
    WRITE,
    Stage("sender", "batches are drained", "producer.send.drainer:Drainer.drain"),
    Stage("sender", "requests", "producer.send.sender:produce_request"),
    Stage("sender", "checksum, in requests", "kafka.records.record_batch:BatchHeader.pack"),
    Stage(
        "sender",
        "bytes written to the socket",
        "kafka.client.broker_connection:BrokerConnection.flush",
    ),
    Stage(
        "sender",
        "wait for the network, responses",
        "kafka.client.network_client:NetworkClient.poll",
    ),
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
    for class_name in classes:
        owner = getattr(owner, class_name)
    return owner, name


def install(clock: StageClock) -> None:
    """Replace the functions of this process with timed versions."""
    for stage in STAGES:
        if stage.function:
            owner, name = place(stage)
            setattr(owner, name, clock.timed(stage.name, getattr(owner, name)))


FOLDER = "KAFKAPROD_STAGES"
"""Environment variable with the folder for the results; workers inherit it."""


class StagedDataSource(KafkaProdDataSource):
    """`format("kafkaprod")` with a clock."""

    @classmethod
    def name(cls) -> str:
        """Return a name that differs from that of the sink, which is not timed."""
        return "stages-of-kafkaprod"

    def writer(self, schema: StructType, overwrite: bool) -> KafkaProdWriter:
        """Return the sink's writer, which saves each task's seconds per stage to a file."""
        writer = super().writer(schema, overwrite)
        assert isinstance(writer, KafkaProdWriter)
        writer.write = partial(_write, writer.write)  # type: ignore[method-assign]
        return writer


def _write(
    write: Callable[[Iterator[pa.RecordBatch]], SparkCommitMessage],
    iterator: Iterator[pa.RecordBatch],
) -> SparkCommitMessage:
    """Write the rows of one task."""
    clock = _clock()
    clock.seconds.clear()
    batches = clock.timed_items(READ.name, iterator)
    message: SparkCommitMessage = clock.timed(WRITE.name, write)(batches)
    path = Path(os.environ[FOLDER]) / f"{uuid.uuid4().hex}.json"
    path.write_text(json.dumps(clock.seconds), encoding="utf-8")
    return message


@cache
def _clock() -> StageClock:
    """Return the worker's clock, which is installed when its first task starts."""
    clock = StageClock()
    install(clock)
    return clock


def take_seconds(folder: Path) -> Counter[str]:
    """Return the CPU seconds of each stage that the tasks have saved, and delete them."""
    seconds: Counter[str] = Counter()
    for file in folder.iterdir():
        seconds.update(json.loads(file.read_text(encoding="utf-8")))
        file.unlink()
    return seconds
