"""Execute a plan with all logs at DEBUG level: `writing_child FOLDER PLAN`.

The folder is also the home, working and temporary directory, so it contains all files.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
from pyspark.sql import SparkSession

from spark_kafka_sink import write
from tests.spark.secrets.plan import EVENTS, LOG, SHOWN, Plan
from tools.support.waiting import poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_LOG4J = """
rootLogger.level = debug
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {folder}/{log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d %p %c: %m%n%ex
"""
_TIMEOUT_S = 300
_DEBUG_SITE = "import logging\nlogging.basicConfig(level=logging.DEBUG)\n"


class Job:
    """Executes one plan in one Spark session."""

    def __init__(self, spark: SparkSession, plan: Plan, folder: Path) -> None:
        self._spark, self._plan, self._folder = spark, plan, folder
        self.errors: dict[str, str] = {}
        self.shown: list[str] = []

    def run(self) -> None:
        """Execute all writes and store failures in `errors`."""
        frame = self._spark.range(20).selectExpr("CAST(id AS STRING) AS value").coalesce(1)
        for number, login in enumerate(self._plan.logins):
            self._try(f"batch {number}", partial(self._batch, frame, login))
        self._write_command_lines()
        if self._plan.format == "kafkaprod":
            self._calls(frame)
        self._try("wrong batch", lambda: self._batch(frame, self._plan.wrong))
        self._try("mistyped", lambda: self._batch(frame, self._plan.mistyped))
        self._try("stream", lambda: self._stream("good", self._plan.logins[0]))
        self._try("wrong stream", lambda: self._stream("wrong", self._plan.wrong))
        if self._plan.sql:
            self._try("sql", lambda: self._sql(self._plan.logins[0]))

    def _try(self, name: str, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception as error:  # noqa: BLE001 - any error is a result
            self.errors[name] = f"{error!s}\n{error!r}"

    def _batch(self, frame: DataFrame, options: dict[str, str]) -> None:
        writer = frame.write.format(self._plan.format).options(**options).mode("append")
        self.shown.append(repr(writer))
        writer.save()

    def _calls(self, frame: DataFrame) -> None:
        """Call `write` in place of the format."""
        for number, login in enumerate(self._plan.logins):
            self._try(f"call {number}", partial(self._call, frame, login))
        self._try("wrong call", lambda: self._call(frame, self._plan.wrong))
        self._try("mistyped call", lambda: self._call(frame, self._plan.mistyped))

    def _call(self, frame: DataFrame, options: dict[str, str]) -> None:
        self.shown.append(repr(write(frame, options)))

    def _stream(self, name: str, options: dict[str, str]) -> None:
        source = self._folder / "lines"
        source.mkdir(exist_ok=True)
        (source / "lines.txt").write_text("a\nb\n")
        checkpoint = str(self._folder / f"checkpoint-{name}")
        writer = self._spark.readStream.text(str(source)).writeStream.format(self._plan.format)
        writer = writer.options(**options).trigger(availableNow=True)
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            _await_progress(query)
        finally:
            self.shown += [json.dumps(query.lastProgress, default=str), str(query.exception())]
            query.explain(True)
            query.stop()

    def _sql(self, options: dict[str, str]) -> None:
        assignments = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
        assignments = assignments.replace("\n", "\\n")
        insert = f"INSERT INTO named WITH ({assignments}) SELECT 'a' AS value"
        self._spark.sql("CREATE TABLE named (value STRING) USING kafkaprod")
        self._spark.sql(insert)
        self._spark.sql(f"CREATE TABLE kept USING kafkaprod OPTIONS ({assignments})")
        for statement in (
            f"EXPLAIN EXTENDED {insert}",
            f"EXPLAIN FORMATTED {insert}",
            "DESCRIBE EXTENDED kept",
            "SHOW CREATE TABLE kept",
        ):
            self.shown.append(str(self._spark.sql(statement).collect()))

    def _write_command_lines(self) -> None:
        """Write the command lines of all processes, which all users can read, to a file."""
        this = psutil.Process()
        for process in [this, *this.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                self.shown.append(" ".join(process.cmdline()))


def main(folder: Path, plan: Plan) -> None:
    """Execute the plan and write output and errors to files."""
    _prepare(folder)
    builder = SparkSession.builder
    builder = builder.remote("local[2]") if plan.connect else builder.master("local[2]")
    for name, value in (_settings(folder) | plan.settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    job = Job(spark, plan, folder)
    job.run()
    (folder / "errors.json").write_text(json.dumps(job.errors))
    (folder / SHOWN).write_text("\n".join(job.shown))
    spark.stop()


def _await_progress(query: StreamingQuery) -> None:
    """Wait until the query has ended and has a progress; raise its error, if any."""
    if not poll(lambda: query.awaitTermination(1) and query.lastProgress, _TIMEOUT_S):
        raise TimeoutError(f"the query has not ended within {_TIMEOUT_S} s")


def _prepare(folder: Path) -> None:
    for name in ("tmp", EVENTS, "site", "work"):
        (folder / name).mkdir()
    (folder / "site" / "sitecustomize.py").write_text(_DEBUG_SITE)
    (folder / "log4j2.properties").write_text(_LOG4J.format(folder=folder, log=LOG))
    os.chdir(folder / "work")
    paths = [str(folder / "site"), os.environ.get("PYTHONPATH", "")]
    os.environ |= {
        "HOME": str(folder),
        "TMPDIR": str(folder / "tmp"),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_TESTING": "1",  # the Spark Connect server then uses a free port
    }


def _settings(folder: Path) -> dict[str, str]:
    java = f"-Dlog4j2.configurationFile=file:{folder}/log4j2.properties "
    java += f"-Dderby.system.home={folder} -Djava.io.tmpdir={folder}/tmp"
    return {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "700m",
        "spark.driver.extraJavaOptions": java,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (folder / EVENTS).as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.python.authenticate.socketTimeout": "120s",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Plan.read(Path(sys.argv[2])))
