"""A warm Spark session that writes on demand: `python -m tools.benchmarks.spark.child SESSION`.

SESSION is a JSON object with the arguments of `start_session`. The process reads commands from
standard input, one JSON object per line, and responds to each command with one line of JSON. CPU
and memory are reported separately for the driver (this process), its JVM and the Python workers.
The peak memory is VmHWM, which is reset by writing 5 to /proc/PID/clear_refs, so that no sampling
is needed during a write.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from spark_kafka_sink import micro_batch_writer, warm_up, write
from tools.benchmarks.installation import AS_USERS_HAVE
from tools.benchmarks.results import peak_mib
from tools.benchmarks.spark.contestants import ARROW_BYTES
from tools.support.jars import ROOT, SPARK_AVRO, SPARK_SINK, ensure

_RESET_PEAK = "5"
_POLL_EVERY = 1000


@dataclass(frozen=True, slots=True)
class Cpu:
    """CPU seconds of each live process, user and system.

    `reaped` is the CPU time of the Python processes' children that have exited and been reaped.
    """

    driver: float
    jvm: float
    python: Mapping[int, float]
    reaped: float

    def since(self, start: Cpu) -> dict[str, float]:
        """Return the CPU use since `start`, as fields of a Sample.

        Spark can stop idle workers at any time. Their CPU use before `start` is excluded.
        """
        gone = sum(used for pid, used in start.python.items() if pid not in self.python)
        workers = sum(used - start.python.get(pid, 0.0) for pid, used in self.python.items())
        workers += max(0.0, self.reaped - start.reaped - gone)
        driver, jvm = self.driver - start.driver, self.jvm - start.jvm
        return {"cpu_s": driver + jvm + workers, "jvm_cpu_s": jvm, "workers_cpu_s": workers}


def cpu() -> Cpu:
    """Return the CPU use of this process and its descendants."""
    jvm = reaped = 0.0
    python: dict[int, float] = {}
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            reaped += times.children_user + times.children_system
            if _is_jvm(process):
                jvm += times.user + times.system
            else:
                python[process.pid] = times.user + times.system
    own = psutil.Process().cpu_times()
    return Cpu(own.user + own.system, jvm, python, reaped)


def reset_peaks() -> None:
    """Reset the peak memory counters."""
    for process in (*_jvms(), *_workers()):
        with suppress(OSError):
            Path(f"/proc/{process.pid}/clear_refs").write_text(_RESET_PEAK, encoding="utf-8")


def peaks() -> dict[str, float]:
    """Return the peak RSS in MiB since `reset_peaks`, as fields of a Sample."""
    workers = _peaks(_workers())
    return {
        "peak_mib": max(workers, default=0.0),
        "workers_peak_mib": sum(workers),
        "jvm_peak_mib": sum(_peaks(_jvms())),
    }


def _peaks(processes: Iterator[psutil.Process]) -> list[float]:
    peaks: list[float] = []
    for process in processes:
        # The process has exited, or is exiting and has released its memory.
        with suppress(OSError, StopIteration):
            peaks.append(peak_mib(process.pid))
    return peaks


def _jvms() -> Iterator[psutil.Process]:
    return (child for child in psutil.Process().children() if _is_jvm(child))


def _workers() -> Iterator[psutil.Process]:
    """Return the Python workers: children of the daemons, which are children of a JVM."""
    for jvm in _jvms():
        for daemon in jvm.children():
            with suppress(psutil.NoSuchProcess):
                yield from daemon.children()


def _is_jvm(process: psutil.Process) -> bool:
    return bool(process.name() == "java")


def _source(frame: DataFrame, order: dict[str, Any]) -> None:
    """Write with a data source, which is registered first if it is specified as `module:class`."""
    module, _, name = order["writer"].rpartition(":")
    if module:
        source = getattr(import_module(module), name)
        frame.sparkSession.dataSource.register(source)
        name = source.name()
    frame.write.format(name).mode("append").options(**order["options"]).save()


def _null(frame: DataFrame, _: dict[str, Any]) -> None:
    """Write with a Python sink that discards the Arrow batches."""
    frame.sparkSession.dataSource.register(NullDataSource)
    frame.write.format("bench-null").mode("append").save()


def _discard(frame: DataFrame) -> None:
    """Discard the Arrow batches in `mapInArrow`, which is the least that `write` needs."""

    def discard(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"message": [b""]})

    frame.mapInArrow(discard, "message binary").collect()


def _noop(frame: DataFrame, _: dict[str, Any]) -> None:
    """Write with Spark's noop sink, which reads every row and discards it."""
    frame.write.format("noop").mode("overwrite").save()


def _confluent(frame: DataFrame, order: dict[str, Any]) -> None:
    """Write with confluent-kafka in mapInArrow and one produce() per row, like users' own code."""

    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        options = dict(order["options"])
        yield _produce(batches, options.pop("topic"), options)

    failed = sum(row.failed for row in frame.mapInArrow(send, "failed long").collect())
    if failed:
        raise RuntimeError(f"confluent-kafka did not deliver {failed} records")


WRITERS: dict[str, Callable[[DataFrame, dict[str, Any]], object]] = {
    "confluent": _confluent,
    "discard": lambda frame, _: _discard(frame),
    "null": _null,
    "write": lambda frame, order: write(frame, order["options"]),
    "noop": _noop,
}
"""The writers that are not data sources."""


def _produce(
    batches: Iterator[pa.RecordBatch], topic: str, options: dict[str, str]
) -> pa.RecordBatch:
    # A class of this library that is a global of this script could not be pickled.
    from confluent_kafka import Producer

    failed = 0

    def delivered(error: Exception | None, message: Any) -> None:
        nonlocal failed
        failed += error is not None

    producer = Producer({**options, "on_delivery": delivered})
    for batch in batches:
        values = batch.column("value").to_pylist()
        keyed = "key" in batch.schema.names
        keys = batch.column("key").to_pylist() if keyed else [None] * len(values)
        for number, (key, value) in enumerate(zip(keys, values, strict=True)):
            _send(producer, topic, key, value)
            if number % _POLL_EVERY == 0:
                producer.poll(0)
    failed += producer.flush()
    return pa.RecordBatch.from_pydict({"failed": pa.array([failed], pa.int64())})


def _send(producer: Any, topic: str, key: str | None, value: str | None) -> None:
    while True:
        try:
            producer.produce(topic, value, key)
        except BufferError:
            producer.poll(0.01)
        else:
            return


class NullDataSource(DataSource):
    """The data source for the writer `null`."""

    @classmethod
    def name(cls) -> str:
        return "bench-null"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: ARG002
        return _NullWriter()


class _NullWriter(DataSourceArrowWriter):
    def write(  # type: ignore[override]  # Declared for rows, called with Arrow batches.
        self, iterator: Iterator[pa.RecordBatch]
    ) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


def start_session(cores: int = 1, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Start a local Spark session with these settings in addition to the defaults.

    The workers' PYTHONPATH starts with stubs of modules that only tests need.
    """
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (AS_USERS_HAVE, ROOT)))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = (path for jars in (SPARK_SINK, SPARK_AVRO) for path in ensure(jars).paths())
    settings: dict[str, str | int | float | bool | None] = {
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.jars": ",".join(map(str, jars)),
        **(conf or {}),
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("benchmark")
    return builder.config(map=settings).getOrCreate()


def _measure_write(spark: SparkSession, order: dict[str, Any]) -> dict[str, float]:
    """Write a frame, and return the fields of a Sample."""
    if ARROW_BYTES in order["conf"]:
        spark.conf.set(ARROW_BYTES, order["conf"][ARROW_BYTES])
    else:
        spark.conf.unset(ARROW_BYTES)
    frame = _frame(spark, order).selectExpr(*order["select"])
    for name, expression in order["columns"].items():
        frame = frame.withColumn(name, expr(expression))
    reset_peaks()
    started, used = time.perf_counter(), cpu()
    WRITERS.get(order["writer"], _source)(frame, order)
    seconds, spent = time.perf_counter() - started, cpu().since(used)
    return {"records": order["records"], "seconds": seconds, **spent, **peaks()}


def _frame(spark: SparkSession, order: dict[str, Any]) -> DataFrame:
    """Return the rows of a file or folder, or of a range, which are read by `tasks` tasks."""
    if order["events"] is None:
        return spark.range(0, order["records"], 1, order["tasks"] or 1)
    frame = spark.read.parquet(order["events"])
    if order["tasks"] and (tasks := frame.rdd.getNumPartitions()) != order["tasks"]:
        raise ValueError(f"{order['events']} is read by {tasks} tasks instead of {order['tasks']}")
    return frame


def _query(spark: SparkSession, order: dict[str, Any]) -> None:
    """Run a query in the JVM, and start Python workers if requested."""
    spark.read.parquet(order["query"]).selectExpr("sum(length(value))").collect()
    if order["warm_up"]:
        warm_up(spark).join()


def _stream(spark: SparkSession, order: dict[str, Any]) -> list[dict[str, int]]:
    """Run a stream and return the duration of each micro-batch as reported by Spark."""
    source = spark.readStream.schema("value string").option("maxFilesPerTrigger", order["tasks"])
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = source.parquet(order["stream"]).writeStream
        sink, options = order.get("sink", "kafkaprod"), order["options"]
        if sink == "discard":
            stream = stream.foreachBatch(lambda frame, _: _discard(frame))
        elif sink == "write":
            stream = stream.foreachBatch(micro_batch_writer(options))
        else:
            stream = stream.format(sink).options(**options)
        stream = stream.option("checkpointLocation", checkpoint)
        query = stream.trigger(availableNow=True).start()
        query.awaitTermination()
        return [progress.durationMs for progress in query.recentProgress if progress.numInputRows]


_ANSWERS = {
    "query": _query,
    "stream": _stream,
    "events": _measure_write,
}
"""The function for each kind of order, by a key that only this kind has."""


def main(session: dict[str, Any]) -> None:
    """Execute orders until the input ends."""
    spark = start_session(**session)
    # Spark and its workers can print anything: responses use a separate channel.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        for line in sys.stdin:
            order = json.loads(line)
            answer = next(answer for key, answer in _ANSWERS.items() if key in order)
            answers.write(json.dumps(answer(spark, order)) + "\n")
            answers.flush()
        spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
