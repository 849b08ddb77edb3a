"""`progress`: display the progress of the writes in a `with` block."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql.utils import is_remote

from spark_kafka_sink.common.arguments import SESSION, check_argument
from spark_kafka_sink.common.errors import ConfigError, ReportError
from spark_kafka_sink.spark.reports.last_report import is_connect_session
from spark_kafka_sink.spark.reports.progress_display import NotebookLine, line_display
from spark_kafka_sink.spark.reports.progress_listener import ProgressListener
from spark_kafka_sink.spark.reports.report_folder import ReportFolder
from spark_kafka_sink.spark.reports.task_progress import ProgressAddress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from spark_kafka_sink.spark.reports.write_progress import WriteProgress

_LOG = logging.getLogger(__name__)
_UPDATE_INTERVAL_S = 2.0


@contextmanager
def progress(
    spark: SparkSession | None = None,
    *,
    interval_s: float = _UPDATE_INTERVAL_S,
    show: Callable[[WriteProgress], None] | None = None,
) -> Iterator[ProgressListener]:
    """Display the progress of the writes and micro-batches that start within the `with` block.

    Every other second it shows the acknowledged records, the rate, and what the tasks wait for: on
    stderr, or in place below a notebook's cell. Tasks send their progress by UDP to a port of this
    process on `spark.driver.host`. If the network between executors and driver blocks UDP, nothing
    is shown, but the write is not affected.

    Args:
        spark: the Spark session; any session works, because a process has only one Spark
            application.
        interval_s: seconds between two lines.
        show: called with each `WriteProgress`, in a separate thread, instead of displaying it.

    Raises:
        ConfigError: an argument is wrong.
        ReportError: there is no Spark application in this process, as with Spark Connect.
    """
    if spark is not None:
        check_argument("progress(spark)", spark, SESSION, ("createDataFrame",))
    if interval_s <= 0:
        raise ConfigError(f"progress(): interval_s must be above 0, not {interval_s}")
    if show is not None:
        check_argument("progress(show=...)", show, "a function", ("__call__",))
    folder = ReportFolder.here()
    context = SparkContext._active_spark_context  # noqa: SLF001 - there is no public API
    remote = is_remote() if spark is None else is_connect_session(spark)
    if folder is None or context is None or remote:
        raise ReportError(
            "progress() requires the Spark driver in this process",
            hint="With Spark Connect, use last_report() after the write, or the Spark UI.",
        )
    host = context.getConf().get("spark.driver.host") or "127.0.0.1"
    display = show or line_display()
    try:
        listener = ProgressListener(host, interval_s, display)
    except OSError as error:
        raise ReportError(
            f"progress() cannot listen on spark.driver.host {host}: {error}",
            hint="Set spark.driver.host to an address of this machine.",
        ) from error
    try:
        listener.address.publish(folder.path)
        yield listener
    except (KeyboardInterrupt, Py4JError):
        # On Ctrl-C PySpark asks the JVM to cancel on the connection that is busy with the write.
        # That fails with one of these two errors.
        if (message := listener.latest.interruption_message()) is not None:
            _LOG.warning("%s", message)
        raise
    finally:
        ProgressAddress.withdraw(folder.path)
        listener.close()
        if isinstance(display, NotebookLine):
            display.close()
