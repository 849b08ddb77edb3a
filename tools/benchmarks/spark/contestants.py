"""The sinks that are compared inside Spark, and what each is given."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tools.benchmarks.core.contestants import BATCHES, SAFE
from tools.benchmarks.payload import events_file
from tools.support.jars import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

CODECS = ("none", "lz4", "zstd")
ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNLIMITED = "2147483647"
SMALL_ROWS = {ARROW_BYTES: UNLIMITED}
"""What conf/spark-small-rows.conf sets that Spark does not."""
FLIGHT = "substring(value, 11, 4)"
"""As a key: the flight's number in an event, one of 9,000."""
PYTHON_41 = ROOT / ".venv-pyspark41" / "bin" / "python"
"""With the oldest pyspark; there once `make bench` or `make test` has made it."""
_QUEUE = {
    "queue.buffering.max.messages": "1000000",
    "queue.buffering.max.kbytes": "1048576",
    "batch.num.messages": "100000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkContestant:
    """A writer (see `writers`), its producer options, and the codecs it is measured with.

    `columns` are expressions of the events' column `value`, `conf` are settings of the session;
    `python` is the interpreter of the driver and the workers.
    """

    name: str
    writer: str
    options: Mapping[str, str] = field(default_factory=dict)
    codecs: tuple[str, ...] = CODECS
    columns: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=lambda: SMALL_ROWS)
    python: str = sys.executable

    @property
    def spark(self) -> tuple[str, str]:
        """Those with the same share a warm Spark: the writer and the interpreter."""
        return self.writer, self.python

    def keyed(self) -> SparkContestant:
        """The same with a key in each record."""
        return replace(self, name=keyed(self.name), columns={**self.columns, "key": FLIGHT})

    def expected(self, records: int) -> int:
        """How many of the records it leaves in its topic."""
        return records if self.writer in DELIVERING else 0

    def order(
        self, topic: str, bootstrap_servers: str, records: int, codec: str = "none"
    ) -> dict[str, Any]:
        """What a `WarmSpark` is told; an empty topic is for those with a column of topics."""
        settings = {"bootstrap.servers": bootstrap_servers, "compression.type": codec}
        return {
            "writer": self.writer,
            "topic": topic,
            "options": {**settings, **self.options},
            "events": str(events_file(records)),
            "records": records,
            "columns": dict(self.columns),
            "conf": dict(self.conf),
        }


def keyed(name: str) -> str:
    """What a contestant is called when its records have keys."""
    return f"{name}, keyed"


DELIVERING = ("kafkaprod", "jvm", "confluent")
"""Writers that deliver to Kafka."""
OURS, JVM = "kafkaprod", "Spark's kafka, 1 MiB batches"
NULL = "null Arrow sink"
SINK = SparkContestant(name=OURS, writer="kafkaprod")
TUNED_JVM = SparkContestant(name=JVM, writer="jvm", options={**SAFE, **BATCHES})
SINK_41 = replace(SINK, name=f"{OURS}, pyspark 4.1", codecs=("none",), python=str(PYTHON_41))
NULL_SINK = SparkContestant(name=NULL, writer="null", codecs=("none",))
CONTESTANTS = (
    SINK,
    TUNED_JVM,
    SINK.keyed(),
    TUNED_JVM.keyed(),
    SparkContestant(name="Spark's kafka, defaults", writer="jvm", codecs=("none",)),
    replace(SINK, name=f"{OURS}, Spark's own conf", codecs=("none",), conf={}),
    SparkContestant(
        name="confluent-kafka in mapInArrow",
        writer="confluent",
        options={**SAFE, **BATCHES, **_QUEUE},
        codecs=("none",),
    ),
    NULL_SINK,
    replace(NULL_SINK, name=f"{NULL}, Spark's own conf", conf={}),
    SparkContestant(name="Spark's noop, which reads only", writer="noop", codecs=("none",)),
    SINK_41,
    SINK_41.keyed(),
)


def present(tell: Callable[[str], None]) -> list[SparkContestant]:
    """Everyone, but those on pyspark 4.1 only where that is installed."""
    if PYTHON_41.exists():
        return list(CONTESTANTS)
    tell(f"pyspark 4.1 is left out: there is no {PYTHON_41}")
    return [one for one in CONTESTANTS if one.python == sys.executable]
