"""Convert exceptions that Spark raises on the driver to errors of this package.

Spark reports errors of tasks, planning and commits as the text of a Python traceback: in classic
sessions, with Spark Connect, and in StreamingQueryException. `parse_error` is the inverse of
`KafkaProdError.__str__`: `str` of the result equals the text, except for partitions that the text
does not list. If an error has no topic, partition, broker or error name, its hint is assumed to
start after the first full stop.

Some errors are raised by Spark before it calls the data source; for these, this module adds a hint.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql.utils import is_remote

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.arguments import check_argument
from spark_kafka_sink.common.delivery_status import PartitionStatus
from spark_kafka_sink.common.errors import FIELDS, ConfigError, KafkaProdError, TornTransactionError
from spark_kafka_sink.spark.runtime.spark_releases import HAS_DATA_SOURCES, without_data_sources
from spark_kafka_sink.spark.runtime.worker_setup import hide_traceback

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

_OR_REGISTER = ", or call register(spark), which makes a local session use this Python."
_NOT_FOUND = re.compile(r"\[DATA_SOURCE_NOT_FOUND\][^\n]*kafkaprod")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^'\n]+)'")
_REJECTIONS = (
    (
        re.compile(r"\[UNSUPPORTED_DATA_SOURCE_SAVE_MODE\][^\n]*kafkaprod"),
        "Spark only supports the save mode append for Python data sources",
        "Add .mode('append').",
    ),
    (
        re.compile(r"kafkaprod does not support Update mode"),
        "Spark does not support the output mode update for Python data sources",
        "Use .outputMode('append'), or .foreachBatch(micro_batch_writer(options)).",
    ),
    (
        re.compile(
            r"columns do not match the existing table's\.\n - provided: .*\n - table: *(?:\n|$)"
        ),
        "Spark cannot partition the rows of a Python data source by columns",
        (
            "Remove .partitionBy(...). The partition of a record is the column `partition`, or "
            "chosen by the hash of its key."
        ),
    ),
    (
        re.compile(r'Cannot use "INTERVAL" type in the table schema\.[^\n]*\n[^\n]* kafkaprod'),
        "Spark does not write columns of type INTERVAL to a Python data source",
        "Drop the column, cast it to STRING, or use write(df, options), which ignores it.",
    ),
    (
        re.compile(r'Cannot safely cast `(?:key|value)` "\w+" to "BINARY"'),
        "a table that was created without columns accepts only BINARY in `key` and `value`",
        (
            "Cast them: INSERT INTO t (key, value) SELECT CAST(key AS BINARY), CAST(value AS "
            "BINARY); or create the table with columns (key STRING, value STRING), and give the "
            "options with each write."
        ),
    ),
    (
        re.compile(
            r"\[STREAMING_REAL_TIME_MODE\.[^\n]*(?:PythonTable|ForeachBatchSink)"
            r"|kafkaprod does not support async progress tracking"
        ),
        "Spark's real-time mode does not support Python data sources",
        "Use .trigger(processingTime='0 seconds') for minimum latency.",
    ),
)
"""Pattern of Spark's error text, explanation, and hint."""
_RAISED_ERROR = re.compile(r"(?:^|: )(?:spark_kafka_sink(?:\.\w+)*\.)(\w+Error): ", re.MULTILINE)
"""The start of a traceback's last line: the module and class of the error, at the start of a line
or after Spark's introduction.
"""
_TRACEBACK_END = re.compile(
    r"\n\s*\n|\n\tat |\n\s*JVM stacktrace:|\nCaused by: |\n(?:During handling|The above exception)"
    r"|\n\s*SQLSTATE: |\n=== Streaming Query ==="
)
_FIELD_NAMES = {text: name for name, text in FIELDS.items()}
_TEXTS = "|".join(_FIELD_NAMES)
_PLACE = re.compile(rf" \[((?:{_TEXTS})=.*?)\](?=\. |\Z)", re.DOTALL)
_FIELD = re.compile(rf"(?:^|, )({_TEXTS})=")
_SUMMARY = "\nRecords: "


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
    for cause in _exception_chain(exception):
        if isinstance(cause, KafkaProdError):
            return cause
        texts.append(str(cause))
    parsed = next((error for text in texts if (error := parse_error(text))), None)
    return parsed or next((error for text in texts if (error := _spark_error(text))), None)


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
        sys.last_type = kind  # For %tb.
        sys.last_value = exception
        sys.last_traceback = trace
        error = error_of(exception)
        if error is None:
            lines = shell.InteractiveTB.structured_traceback(kind, exception, trace, tb_offset)
            shell._showtraceback(kind, exception, lines)  # noqa: SLF001 - handlers use it
        else:
            lines = [f"{type(error).__name__}: {error}", "(%tb shows the traceback)"]
            shell._showtraceback(type(error), error, lines)  # noqa: SLF001
        return list(lines)

    shell.set_custom_exc((PySparkException, KafkaProdError), show)


def _exception_chain(exception: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    seen: set[int] = set()
    while exception is not None and id(exception) not in seen:
        seen.add(id(exception))
        yield exception
        exception = exception.__cause__ or exception.__context__


def _spark_error(text: str) -> KafkaProdError | None:
    if _NOT_FOUND.search(text):
        return _not_found()
    if "spark_kafka_sink" in text and (missing := _NO_MODULE.search(text)):
        return _missing_module(missing[1], _python_of_spark()[1])
    for look, message, hint in _REJECTIONS:
        if look.search(text):
            return ConfigError(message, hint=hint)
    return None


def _not_found() -> KafkaProdError:
    """Return the error for a format that Spark cannot find.

    Spark uses a different Python, or the format is not registered in this thread.
    """
    if not HAS_DATA_SOURCES:
        return without_data_sources("format('kafkaprod')")
    name, taken = _python_of_spark()
    if threading.current_thread() is threading.main_thread() and _is_another(taken):
        return ConfigError(
            f"Spark looks up format('kafkaprod') with {taken}, which may not have the package "
            "installed",
            hint=f"Set {name}={sys.executable} before the driver starts"
            + ("." if os.environ.get("PYSPARK_PYTHON") or is_remote() else _OR_REGISTER),
        )
    return ConfigError(
        "format('kafkaprod') is not registered in this thread",
        hint="Call register(spark) in this thread; if that fails, set PYSPARK_PYTHON to a Python "
        "with the package.",
    )


def _missing_module(module: str, python: str) -> ConfigError:
    return ConfigError(
        f"the Python interpreter that Spark starts does not have the module {module}",
        hint="Set PYSPARK_PYTHON, before the driver starts, to a Python with spark-kafka-sink on "
        f"the driver and all executors, or install it for {python}, which Spark uses here.",
    )


def _python_of_spark() -> tuple[str, str]:
    """Return the variable that selects Spark's Python for data sources, and that Python's path."""
    for name in ("PYSPARK_DRIVER_PYTHON", "PYSPARK_PYTHON"):
        if configured := os.environ.get(name):
            return name, shutil.which(configured) or configured
    return "PYSPARK_PYTHON", shutil.which("python3") or "python3"


def _is_another(python: str) -> bool:
    """Return True if `python` is in a different folder than the Python that runs this code.

    Symbolic links are not resolved, because a virtual environment consists of them.
    """
    return Path(python).absolute().parent != Path(sys.executable).absolute().parent


@contextmanager
def without_traceback() -> Iterator[None]:
    """Make Spark report an error of this package as text, without a traceback.

    Spark's message then contains only the error. This works in Spark's Python workers, which exit
    after they report an error. Other exceptions keep their traceback.

    Raises:
        ConfigError: in a worker, a module is missing: the worker's Python is not the driver's.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if not hide_traceback():
            raise
        raise _missing_module(error.name or str(error), sys.executable) from None
    except KafkaProdError:
        hide_traceback()
        raise


def parse_error(text: str) -> KafkaProdError | None:
    """Return the error whose traceback is in `text`, or None. In a chain, this is the last error.

    Only errors of this package are found. An unknown class becomes a `KafkaProdError`.
    """
    last = None
    for match in _RAISED_ERROR.finditer(text):
        if last is not None and "\n\tat " in text[last.end() : match.start()]:
            break  # The JVM repeats the traceback as the cause.
        last = match
    if last is None:
        return None
    body = text[last.end() :]
    end = _TRACEBACK_END.search(body)
    kind = getattr(errors, last[1], KafkaProdError)
    return _rebuild_error(kind, (body[: end.start()] if end else body).rstrip())


def _rebuild_error(kind: type[KafkaProdError], text: str) -> KafkaProdError:
    torn = issubclass(kind, TornTransactionError)
    head, _, details = text.partition("\n" if torn else _SUMMARY)
    lines = [line.strip() for line in details.split("\n")]
    statuses = [status for line in lines if (status := PartitionStatus.parse(line))]
    message, fields_text, hint = _split_first_line(head)
    state = {
        **dict.fromkeys(FIELDS),
        **_parse_fields(fields_text),
        "hint": hint,
        "statuses": tuple(statuses),
    }
    if torn:
        state["details"] = tuple(lines)
    return kind.rebuild(message, state)


def _split_first_line(head: str) -> tuple[str, str, str | None]:
    """Split the first line into message, location and hint."""
    match = _PLACE.search(head)
    if match is not None:
        return head[: match.start()], match[1], head[match.end() + 2 :] or None
    message, _, hint = head.partition(". ")
    return message, "", hint or None


def _parse_fields(fields_text: str) -> dict[str, str | int]:
    _, *parts = _FIELD.split(fields_text)
    names = [_FIELD_NAMES[text] for text in parts[::2]]
    fields: dict[str, str | int] = dict(zip(names, parts[1::2], strict=True))
    if "partition" in fields:
        fields["partition"] = int(fields["partition"])
    return fields
