"""The topic column: which topics there are, and which rows have none that Kafka allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from spark_kafka_sink.common.topic_name import TOPIC_NAMES, is_topic_name
from spark_kafka_sink.producer.row_errors import RowError
from spark_kafka_sink.spark.bytes_column import read_bytes

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_kafka_sink.spark.row_checks import RowChecks

_NONE = -1
_SHOWN = 100


def read_topics(
    column: pa.Array[Any], checks: RowChecks
) -> tuple[tuple[str, ...], NDArray[np.int32] | None]:
    """The topics of n rows, and each row's number among them; None where there is one at most."""
    encoded = read_bytes(column).dictionary_encode()
    numbers = np.asarray(encoded.indices.fill_null(_NONE)).astype(np.int32, copy=False)
    checks.found(
        np.flatnonzero(numbers == _NONE),
        RowError.NULL_TOPIC,
        "null topic present in the data, first in",
        "use the topic option for setting a default topic, or filter such rows out",
    )
    raw = cast("list[bytes]", encoded.dictionary.to_pylist())
    names = [_name(each) for each in raw]
    wrong = [place for place, name in enumerate(names) if name is None]
    if wrong:
        shown = raw[wrong[0]].decode(errors="backslashreplace")[:_SHOWN]
        checks.found(
            np.flatnonzero(np.isin(numbers, wrong)),
            RowError.INVALID_TOPIC,
            f"the column `topic` has {shown!r}, which is no name for a topic, first in",
            TOPIC_NAMES,
        )
        numbers = _without(wrong, len(names))[numbers]
    topics = tuple(name for name in names if name is not None)
    return topics, None if len(topics) <= 1 else np.maximum(numbers, 0)


def _name(raw: bytes) -> str | None:
    """The name, None where no topic can have it."""
    name = raw.decode(errors="replace")
    return name if is_topic_name(name) else None


def _without(wrong: list[int], count: int) -> NDArray[np.int32]:
    """What each of `count` numbers becomes when the wrong ones go; the last is for no number."""
    kept = np.ones(count + 1, np.bool_)
    kept[[*wrong, count]] = False
    return np.where(kept, np.cumsum(kept) - 1, _NONE).astype(np.int32)
