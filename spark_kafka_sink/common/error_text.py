"""Parse an error from its text, because Spark forwards only the Python traceback of a task.

This is the inverse of `KafkaProdError.__str__`: `str` of the result equals the text, except for
partitions that the text does not list. If an error has no topic, partition, broker or error name,
its hint is assumed to start after the first full stop.
"""

from __future__ import annotations

import os
import re
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from spark_kafka_sink.common import errors
from spark_kafka_sink.common.delivery_status import PartitionStatus
from spark_kafka_sink.common.errors import FIELDS, KafkaProdError, TornTransactionError

if TYPE_CHECKING:
    from collections.abc import Iterator

_RAISED: Final = re.compile(r"(?:^|: )(?:spark_kafka_sink(?:\.\w+)*\.)(\w+Error): ", re.MULTILINE)
"""The start of a traceback's last line: the module and class of the error, at the start of a line
or after Spark's introduction.
"""
_END: Final = re.compile(
    r"\n\s*\n|\n\tat |\n\s*JVM stacktrace:|\nCaused by: |\n(?:During handling|The above exception)"
    r"|\n\s*SQLSTATE: |\n=== Streaming Query ==="
)
_PLACE: Final = re.compile(r" \[((?:topic|partition|broker|error)=.*?)\](?=\. |\Z)", re.DOTALL)
_FIELD: Final = re.compile(r"(?:^|, )(topic|partition|broker|error)=")
_SUMMARY: Final = "\nRecords: "


_HIDE_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"
_WORKERS: Final = ("pyspark.daemon", "pyspark.worker", "pyspark.sql.worker.")
"""Main modules of Spark's Python workers."""


@contextmanager
def without_traceback() -> Iterator[None]:
    """Make Spark report an error of this package as text, without a traceback.

    Spark's message then contains only the error. This works in Spark's Python workers, which exit
    after they report an error. Other exceptions keep their traceback.

    Source: ``handle_worker_exception``, ``spark.sql.execution.pyspark.udf.hideTraceback.enabled``.
    """
    try:
        yield
    except KafkaProdError:
        spec = getattr(sys.modules.get("__main__"), "__spec__", None)
        if str(getattr(spec, "name", "")).startswith(_WORKERS):
            os.environ[_HIDE_TRACEBACK] = "1"
        raise


def parse_error(text: str) -> KafkaProdError | None:
    """Return the error whose traceback is in `text`, or None. In a chain, this is the last error.

    Only errors of this package are found. An unknown class becomes a `KafkaProdError`.
    """
    found = None
    for match in _RAISED.finditer(text):
        if found is not None and "\n\tat " in text[found.end() : match.start()]:
            break  # The JVM repeats the traceback as the cause.
        found = match
    if found is None:
        return None
    body = text[found.end() :]
    end = _END.search(body)
    kind = getattr(errors, found[1], KafkaProdError)
    return _rebuilt(kind, (body[: end.start()] if end else body).rstrip())


def _rebuilt(kind: type[KafkaProdError], text: str) -> KafkaProdError:
    torn = issubclass(kind, TornTransactionError)
    head, _, rest = text.partition("\n" if torn else _SUMMARY)
    lines = [line.strip() for line in rest.split("\n")]
    statuses = [status for line in lines if (status := PartitionStatus.parse(line))]
    message, place, hint = _parts(head)
    state = {**dict.fromkeys(FIELDS), **_fields(place), "hint": hint, "statuses": tuple(statuses)}
    if torn:
        state["details"] = tuple(lines)
    return kind.rebuild(message, state)


def _parts(head: str) -> tuple[str, str, str | None]:
    """Split the first line into message, location and hint."""
    place = _PLACE.search(head)
    if place is not None:
        return head[: place.start()], place[1], head[place.end() + 2 :] or None
    message, _, hint = head.partition(". ")
    return message, "", hint or None


def _fields(place: str) -> dict[str, str | int]:
    _, *parts = _FIELD.split(place)
    found: dict[str, str | int] = dict(zip(parts[::2], parts[1::2], strict=True))
    if "partition" in found:
        found["partition"] = int(found["partition"])
    return found
