"""Convert exceptions that Spark raises on the driver to errors of this package.

Spark reports errors of tasks, planning and commits as the text of a Python traceback: in classic
sessions, with Spark Connect, and in StreamingQueryException. Some errors are raised by Spark before
it calls the data source; for these, this module adds a hint.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

from spark_kafka_sink.common.arguments import check_argument
from spark_kafka_sink.common.error_text import parse_error
from spark_kafka_sink.common.errors import ConfigError, KafkaProdError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_OR_REGISTER: Final = ", or call register(spark), which makes a local session use this Python"
_NOT_FOUND: Final = re.compile(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*kafkaprod")
_REFUSALS: Final = (
    (
        re.compile(r"\[UNSUPPORTED_DATA_SOURCE_SAVE_MODE\][^\n]*kafkaprod"),
        "Spark only supports the save mode append for Python data sources",
        "add .mode('append')",
    ),
    (
        re.compile(r"kafkaprod does not support Update mode"),
        "Spark does not support the output mode update for Python data sources",
        "use .outputMode('append'), or .foreachBatch(micro_batch_writer(options))",
    ),
    (
        re.compile(r'Cannot safely cast `(?:key|value)` "\w+" to "BINARY"'),
        "a table that was created without columns accepts only BINARY in `key` and `value`",
        (
            "cast them: INSERT INTO t (key, value) SELECT CAST(key AS BINARY), CAST(value AS "
            "BINARY); or create the table with columns (key STRING, value STRING), and give the "
            "options with each write"
        ),
    ),
    (
        re.compile(
            r"\[STREAMING_REAL_TIME_MODE\.[^\n]*(?:PythonTable|ForeachBatchSink)"
            r"|kafkaprod does not support async progress tracking"
        ),
        "Spark's real-time mode does not support Python data sources",
        "use .trigger(processingTime='0 seconds') for minimum latency",
    ),
    (
        re.compile(r"ModuleNotFoundError: No module named 'spark_kafka_sink"),
        "the Python interpreter that Spark starts does not have spark-kafka-sink",
        "install it on the driver and all executors, for the Python of PYSPARK_PYTHON",
    ),
)
"""Pattern of Spark's error text, explanation, and hint."""


def error_of(exception: BaseException | None) -> KafkaProdError | None:
    """Return the error of this package that caused a write's exception, or None.

    It has the class, message and hint, topic, partition, broker and Kafka's error name if known,
    and in `statuses` the outcome of the task's records::

        try:
            write.save()
        except PySparkException as exception:
            error = error_of(exception)
            if isinstance(error, UnknownTopicError):
                create(error.topic)

    Args:
        exception: raised by `save`, `awaitTermination` or `insertInto`, or `query.exception()`,
            which is None for a query that has not failed.

    Raises:
        ConfigError: the argument is not an exception.
    """
    if exception is not None:
        check_argument("error_of(exception)", exception, "an exception", ("__cause__",))
    texts = []
    for each in _chain(exception):
        if isinstance(each, KafkaProdError):
            return each
        texts.append(str(each))
    found = next((error for text in texts if (error := parse_error(text))), None)
    return found or next((error for text in texts if (error := _refused(text))), None)


def show_errors_briefly(shell: Any) -> None:
    """Make IPython show errors of this package without traceback: `%load_ext spark_kafka_sink`.

    `%tb` shows Spark's exception with its traceback. Other exceptions are shown as before.

    Args:
        shell: an IPython `InteractiveShell`.
    """

    def show(
        shell: Any,
        kind: type[BaseException],
        exception: BaseException,
        trace: TracebackType | None,
        tb_offset: int | None = None,
    ) -> list[str]:
        sys.last_type, sys.last_value, sys.last_traceback = kind, exception, trace  # For %tb.
        error = error_of(exception)
        if error is None:
            shown = shell.InteractiveTB.structured_traceback(kind, exception, trace, tb_offset)
            shell._showtraceback(kind, exception, shown)  # noqa: SLF001 - handlers use it
        else:
            shown = [f"{type(error).__name__}: {error}", "(%tb shows the traceback)"]
            shell._showtraceback(type(error), error, shown)  # noqa: SLF001
        return list(shown)

    shell.set_custom_exc((PySparkException, KafkaProdError), show)


def _chain(exception: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    seen: set[int] = set()
    while exception is not None and id(exception) not in seen:
        seen.add(id(exception))
        yield exception
        exception = exception.__cause__ or exception.__context__


def _refused(text: str) -> KafkaProdError | None:
    if _NOT_FOUND.search(text):
        return _not_found()
    for look, message, hint in _REFUSALS:
        if look.search(text):
            return ConfigError(message, hint=hint)
    return None


def _not_found() -> KafkaProdError:
    """Return the error for a format that Spark cannot find.

    Spark uses a different Python, or the format is not registered in this thread.
    """
    name, taken = _python_of_spark()
    if threading.current_thread() is threading.main_thread() and _is_another(taken):
        return ConfigError(
            f"Spark looks up format('kafkaprod') with {taken}, which may not have the package "
            "installed",
            hint=f"set {name}={sys.executable} before the driver starts"
            + ("" if os.environ.get("PYSPARK_PYTHON") else _OR_REGISTER),
        )
    return ConfigError(
        "format('kafkaprod') is not registered in this thread",
        hint="call register(spark) in this thread; if that fails, set PYSPARK_PYTHON to a Python "
        "with the package",
    )


def _python_of_spark() -> tuple[str, str]:
    """Return the variable that selects Spark's Python for data sources, and that Python's path."""
    for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        if named := os.environ.get(name):
            return name, shutil.which(named) or named
    return "PYSPARK_PYTHON", shutil.which("python3") or "python3"


def _is_another(python: str) -> bool:
    """Return True if `python` is in a different folder than the Python that runs this code.

    Symbolic links are not resolved, because a virtual environment consists of them.
    """
    return Path(python).absolute().parent != Path(sys.executable).absolute().parent
