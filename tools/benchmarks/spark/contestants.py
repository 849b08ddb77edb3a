"""The sinks compared in Spark, their settings, and the warm Spark processes that run them."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import Timer
from typing import IO, TYPE_CHECKING, Any, Self

from tools.benchmarks.core.contestants import BATCHES, SAFE
from tools.benchmarks.payload import events_file
from tools.benchmarks.processes import ContestantError
from tools.benchmarks.results import Sample
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType


_TIMEOUT_S = 300
"""Seconds to wait for a response. Writes take far less time."""
_CHILD = "tools.benchmarks.spark.child"


@dataclass(frozen=True, slots=True)
class _Child:
    process: subprocess.Popen[str]
    errors: IO[bytes]

    @classmethod
    def start(cls, command: Sequence[str]) -> _Child:
        errors = tempfile.TemporaryFile()  # noqa: SIM115  # Closed by `stop`.
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        return cls(process, errors)

    def ask(self, line: str) -> str:
        """Send a line and return the response line.

        The response is empty if the process failed or hangs.
        """
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        timer = Timer(_TIMEOUT_S, self.process.kill)
        timer.start()
        try:
            stdin.write(line + "\n")
            stdin.flush()
            return stdout.readline()
        except BrokenPipeError:
            return ""
        finally:
            timer.cancel()

    def log(self) -> str:
        """Return the end of the process's standard error output."""
        self.errors.seek(0)
        return self.errors.read().decode(errors="replace")[-4000:]

    def stop(self) -> None:
        """Stop the process by closing its input, and kill it if necessary."""
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.errors.close()


class WarmSpark:
    """Context manager for a process that executes orders. Restarts it after a failure."""

    def __init__(self, module: str = _CHILD, *arguments: str, python: str = sys.executable) -> None:
        self._command = (python, "-m", module, *arguments)
        self._child: _Child | None = _Child.start(self._command)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def order(self, order: dict[str, Any]) -> Sample:
        """Execute a write. If it fails, raise ContestantError with the end of the log."""
        return Sample(**self.ask(order))

    def ask(self, order: dict[str, Any]) -> Any:
        """Return the response, parsed from JSON. Raises ContestantError like `order`."""
        if self._child is None:
            self._child = _Child.start(self._command)
        answer = self._child.ask(json.dumps(order))
        if not answer:
            log = self._child.log()
            self._stop()
            raise ContestantError(f"Spark with {order.get('writer', 'kafkaprod')} failed:\n{log}")
        return json.loads(answer)

    def _stop(self) -> None:
        if self._child is not None:
            self._child.stop()
            self._child = None


CODECS = ("none", "lz4", "zstd")
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = "2147483647"
SMALL_ROWS = {ARROW_BYTES: UNLIMITED}
"""Settings in conf/spark-small-rows.conf that differ from Spark's defaults."""
FLIGHT = "substring(value, 11, 4)"
"""Expression for a key: the flight number of an event, which has 9,000 values."""
PYTHON_41 = ROOT / ".venv-pyspark41" / "bin" / "python"
"""Python of the environment with the oldest pyspark, which `make bench` or `make test` creates."""
_QUEUE = {
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "1048576",
    "batch.num.messages": "100000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkContestant:
    """A writer (see `writers`), its producer options, and the codecs to measure.

    `source` returns the Parquet file with a number of records. `select` contains the expressions
    read from it, and `columns` contains further expressions over the column `value`. `conf`
    contains settings of the session. `python` is the interpreter of the driver and the workers.
    """

    name: str
    writer: str
    options: Mapping[str, str] = field(default_factory=dict)
    codecs: tuple[str, ...] = CODECS
    source: Callable[[int], Path] = events_file
    select: tuple[str, ...] = ("*",)
    columns: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=lambda: SMALL_ROWS)
    python: str = sys.executable

    @property
    def spark(self) -> tuple[str, str]:
        """Key of the warm Spark that contestants share: the writer and the interpreter."""
        return self.writer, self.python

    def keyed(self) -> SparkContestant:
        """Return this contestant with a key in each record."""
        return replace(self, name=keyed(self.name), columns={**self.columns, "key": FLIGHT})

    def expected(self, records: int) -> int:
        """Return the number of records that the contestant writes to its topic."""
        return records if self.writer in DELIVERING else 0

    def order(
        self, topic: str, bootstrap_servers: str, records: int, codec: str = "none"
    ) -> dict[str, Any]:
        """Return the order for a `WarmSpark`. `topic` is empty if a column contains the topic."""
        settings = {"bootstrap.servers": bootstrap_servers, "compression.type": codec}
        return {
            "writer": self.writer,
            "topic": topic,
            "options": {**settings, **self.options},
            "events": str(self.source(records)),
            "records": records,
            "select": list(self.select),
            "columns": dict(self.columns),
            "conf": dict(self.conf),
        }


def keyed(name: str) -> str:
    """Return the name of a contestant whose records have keys."""
    return f"{name}, keyed"


DELIVERING = ("kafkaprod", "jvm", "confluent")
"""Writers that write records to Kafka."""
OURS, JVM = "kafkaprod", "Spark's kafka, 1 MiB batches"
NULL = "null Arrow sink"
SINK = SparkContestant(name=OURS, writer="kafkaprod")
TUNED_JVM = SparkContestant(name=JVM, writer="jvm", options={**SAFE, **BATCHES})
DEFAULT_JVM = SparkContestant(name="Spark's kafka, defaults", writer="jvm", codecs=("none",))
SINK_41 = replace(SINK, name=f"{OURS}, pyspark 4.1", codecs=("none",), python=str(PYTHON_41))
NULL_SINK = SparkContestant(name=NULL, writer="null", codecs=("none",))
CONFLUENT = SparkContestant(
    name="confluent-kafka in mapInArrow",
    writer="confluent",
    options={**SAFE, **BATCHES, **_QUEUE},
    codecs=("none", "zstd"),
)
CONTESTANTS = (
    SINK,
    TUNED_JVM,
    SINK.keyed(),
    TUNED_JVM.keyed(),
    DEFAULT_JVM,
    replace(SINK, name=f"{OURS}, Spark's own conf", codecs=("none",), conf={}),
    CONFLUENT,
    CONFLUENT.keyed(),
    NULL_SINK,
    replace(NULL_SINK, name=f"{NULL}, Spark's own conf", conf={}),
    SparkContestant(name="Spark's noop, which reads only", writer="noop", codecs=("none",)),
    SINK_41,
    SINK_41.keyed(),
)


def present(log: Callable[[str], None]) -> list[SparkContestant]:
    """Return all contestants, without those that need pyspark 4.1 if it is missing."""
    if PYTHON_41.exists():
        return list(CONTESTANTS)
    log(f"pyspark 4.1 is omitted: {PYTHON_41} does not exist")
    return [one for one in CONTESTANTS if one.python == sys.executable]
