"""A Spark driver that executes commands from stdin: `driver_child PROFILE FOLDER`.

Commands are lines of JSON. Responses are lines of JSON after "@ ". The process exits at the end of
its input.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_kafka_sink import repartition_by_kafka_partition
from tools.support.jars import SPARK_SINK, ensure
from tools.support.java import QUICK_JVM
from tools.support.kafka_node import free_port
from tools.torture.streams.plan import ARROW_ROWS

_MASTER = "127.0.0.1"
_WORKERS = ("127.0.0.1", "127.0.0.2")
EXECUTORS = len(_WORKERS)
_CORES, _MEMORY_MIB = 2, 600
_QUICK = " ".join(QUICK_JVM)
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "600m",
    "spark.executor.memory": "512m",
    "spark.task.maxFailures": "4",
    "spark.stage.maxConsecutiveAttempts": "8",
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "1s",
    "spark.sql.shuffle.partitions": "3",
    "spark.default.parallelism": "3",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
    "spark.sql.sources.useV1SourceList": "",
    "spark.network.timeoutInterval": "2s",
    # Read each file with one task.
    "spark.sql.files.openCostInBytes": "128m",
}
_SPECULATION = {
    "spark.executor.cores": "2",
    "spark.speculation": "true",
    "spark.speculation.interval": "200ms",
    "spark.speculation.multiplier": "2",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "10s",
}
_SCHEMA = "value string, key string, place int, nap bigint"
_NAP = "substring(java_method('java.lang.Thread', 'sleep', nap), 1, 0)"
_VALUE = f"IF(nap > 0, concat(value, {_NAP}), value) AS value"


def start_cluster(settings: Mapping[str, str], folder: str) -> str:
    """Start the driver's JVM, with a Spark master and workers in it; return the master's URL."""
    conf = SparkConf()
    for name, value in settings.items():
        conf.set(name, value)
    SparkContext._ensure_initialized(conf=conf)
    gateway: Any = SparkContext._gateway
    deploy: Any = gateway.jvm.org.apache.spark.deploy
    none = gateway.jvm.scala.Option.empty()
    java_conf = gateway.jvm.org.apache.spark.SparkConf()
    port = free_port()
    deploy.master.Master.startRpcEnvAndEndpoint(_MASTER, port, 0, java_conf)
    urls = gateway.new_array(gateway.jvm.String, 1)
    urls[0] = f"spark://{_MASTER}:{port}"
    for number, host in enumerate(_WORKERS):
        size = (_CORES, _MEMORY_MIB)
        work = f"{folder}/worker-{number}"
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            *(host, 0, 0, *size, urls, work, none, java_conf, none)
        )
    return str(urls[0])


def main(profile: dict[str, Any], folder: str) -> None:
    """Execute commands until standard input ends."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = _session(profile, folder)
    _report(ready=True)
    commands: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(commands,), daemon=True).start()
    while (command := commands.get()) is not None:
        if "start" in command:
            _run_write(spark, command["start"], commands)
    # Skip the shutdown work of a driver that is no longer needed.
    os._exit(0)


def _session(profile: dict[str, Any], folder: str) -> SparkSession:
    master = "local-cluster[2,2,600]" if profile["executors"] else "local[3,2]"
    settings = {
        **_SETTINGS,
        # With a daemon, the workers would exit together with the executor.
        "spark.python.use.daemon": str(not profile["lone_workers"]).lower(),
        "spark.driver.extraJavaOptions": f"{_QUICK} -Dderby.system.home={folder}",
        "spark.executor.extraJavaOptions": _QUICK,
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": f"{folder}/local",
        "spark.jars": ",".join(map(str, ensure(SPARK_SINK).paths())),
        **(_SPECULATION if profile["hosts"] else {}),
    }
    if profile["hosts"]:
        master = start_cluster(settings, folder)
    builder = SparkSession.builder.master(master).appName("torture-eos")
    spark = builder.config(map={**settings}).getOrCreate()
    spark.sparkContext.setLogLevel("WARN")
    return spark


def _listen(commands: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        commands.put(json.loads(line))
    commands.put(None)
    # The harness has exited: stop this process even if stopping the query hangs.
    threading.Timer(5, os._exit, (1,)).start()


def _run_write(
    spark: SparkSession, spec: dict[str, Any], commands: queue.SimpleQueue[dict[str, Any] | None]
) -> None:
    try:
        _await_executors(spark)
        if spec["job"]:
            frame = _selected_rows(spark.read.schema(_SCHEMA).parquet(spec["input"]), spec)
            frame.write.format(spec["format"]).options(**spec["options"]).mode("append").save()
            _report(ended=True)
            return
        query = _start_stream(spark, spec)
        while not query.awaitTermination(0.1):  # type: ignore[arg-type]
            if not commands.empty():
                commands.get()
                query.stop()
                _report(stopped=True)
                return
    except Exception as error:  # noqa: BLE001 - the harness reports it
        _report(failed=f"{type(error).__name__}: {error}")
        return
    _report(ended=True)


def _start_stream(spark: SparkSession, spec: dict[str, Any]) -> StreamingQuery:
    reader = spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", spec["files"])
    frame = _selected_rows(reader.parquet(spec["input"]), spec)
    writer = frame.writeStream.format(spec["format"]).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", spec["checkpoint"])
    return writer.options(**spec["options"]).start()


def _selected_rows(frame: DataFrame, spec: dict[str, Any]) -> DataFrame:
    if spec["owned_partitions"]:
        return _owned(frame, spec)
    if spec["shuffled"]:
        frame = frame.repartition(3, "place")
    return frame.selectExpr(_VALUE, "place AS partition" if spec["explicit"] else "key")


def _owned(frame: DataFrame, spec: dict[str, Any]) -> DataFrame:
    """Assign each Kafka partition to one task, add a task without rows, and delay the rows."""
    count = spec["owned_partitions"]
    frame = frame.selectExpr("value", "place AS partition" if spec["explicit"] else "key", "nap")
    frame = repartition_by_kafka_partition(
        frame, spec["options"], partitions=count, tasks=count + 1
    )
    return frame.selectExpr(_VALUE, "partition", *([] if spec["explicit"] else ["key"]))


def _await_executors(spark: SparkSession) -> None:
    """Wait until all executors are running, because an earlier run might have killed one."""
    context = spark.sparkContext
    count = 1 if str(context.master).startswith("local[") else 1 + EXECUTORS
    while context._jsc.sc().getExecutorMemoryStatus().size() < count:
        time.sleep(0.05)


def _report(**what: Any) -> None:
    print(f"@ {json.dumps(what)}", flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), sys.argv[2])
