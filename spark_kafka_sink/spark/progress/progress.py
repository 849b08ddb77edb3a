"""`progress`: shows how far writes have come, on the console or in a notebook."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.utils import is_remote

from spark_kafka_sink.common.arguments import SESSION, check_argument
from spark_kafka_sink.common.errors import ConfigError, ReportError
from spark_kafka_sink.spark.progress.address import ProgressAddress
from spark_kafka_sink.spark.progress.line_display import NotebookLine, line_display
from spark_kafka_sink.spark.progress.listener import ProgressListener
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.session_reports import is_connect_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from spark_kafka_sink.spark.progress.write_progress import WriteProgress

INTERVAL_S = 2.0
_LOG = logging.getLogger("spark_kafka_sink")


@contextmanager
def progress(
    spark: SparkSession | None = None,
    *,
    interval_s: float = INTERVAL_S,
    show: Callable[[WriteProgress], None] | None = None,
) -> Iterator[ProgressListener]:
    """Show the progress of the writes, and micro-batches, that begin within the `with` block.

    Every other second: records acknowledged, the rate, and what the tasks wait for; on stderr, or
    in place below a notebook's cell. Tasks send it by UDP to a port of this process on
    `spark.driver.host`. Where a network between executors and driver lets none through, nothing
    is shown and the write goes on as ever.

    Args:
        spark: the session; any will do, as there is one Spark application in a process.
        interval_s: seconds between two lines.
        show: called instead with each `WriteProgress`, in a thread of its own.

    Raises:
        ConfigError: an argument is wrong.
        ReportError: there is no Spark application in this process, as with Spark Connect.
    """
    if spark is not None:
        check_argument("progress(spark)", spark, SESSION, ("dataSource",))
    if interval_s <= 0:
        raise ConfigError(f"progress(): interval_s is {interval_s}, and must be above 0")
    if show is not None:
        check_argument("progress(show=...)", show, "a function", ("__call__",))
    folder = ReportFolder.here()
    context = SparkContext._active_spark_context  # noqa: SLF001 - there is no public way
    remote = is_remote() if spark is None else is_connect_session(spark)
    if folder is None or context is None or remote:
        raise ReportError(
            "progress() needs the Spark application in this process",
            hint="With Spark Connect, look at last_report() after the write, or at the Spark UI.",
        )
    host = context.getConf().get("spark.driver.host") or "127.0.0.1"
    shown = show or line_display()
    try:
        listener = ProgressListener(host, interval_s, shown)
    except OSError as error:
        raise ReportError(
            f"progress() can't listen on {host}, spark.driver.host: {error}",
            hint="Set spark.driver.host to an address of this machine.",
        ) from error
    try:
        listener.address.publish(folder.path)
        yield listener
    except (KeyboardInterrupt, Py4JError):
        # At Ctrl-C PySpark asks the JVM to cancel, on the connection that is busy with the write:
        # in vain, and what comes of it is the one error or the other.
        if (told := listener.latest.interrupted()) is not None:
            _LOG.warning("%s", told)
        raise
    finally:
        ProgressAddress.withdraw(folder.path)
        listener.close()
        if isinstance(shown, NotebookLine):
            shown.close()
