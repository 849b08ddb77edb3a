"""The Python workers and daemons that Spark has started."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import psutil

from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES


def workers() -> set[str]:
    """Return the kinds of Python workers of all sessions of this process."""
    return set(kinds(psutil.Process().children(recursive=True)))


def daemons() -> Counter[str]:
    """Return the number of daemons for each kind of Python worker."""
    jvms = [process for process in psutil.Process().children() if process.name() == "java"]
    return Counter(kinds([daemon for jvm in jvms for daemon in jvm.children()]))


def kinds(processes: list[psutil.Process]) -> Iterator[str]:
    """Yield the kinds of Python workers among processes, some of which may have ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # the name of a zombie process
            command = process.cmdline()
            if "pyspark.daemon" in command:
                yield command[-1] if HAS_DATA_SOURCES else "pyspark.worker"
