"""Assertions for tests of your own jobs."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_kafka_sink.common.arguments import FRAME, check_argument
from spark_kafka_sink.common.errors import ConfigError
from spark_kafka_sink.common.similar_names import MIN_TYPO_RATIO, nearest
from spark_kafka_sink.common.text import plural
from spark_kafka_sink.config.sink_config import SinkConfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from spark_kafka_sink.broker.embedded import EmbeddedBroker
    from spark_kafka_sink.config.formats import FormatsConfig

TopicAndKey = tuple[str | None, bytes | None]
"""Topic and key of a row."""
_COMPARED = ("key", "value", "topic", "headers")
"""Columns that are compared if they are in the frame."""
_COLUMNS = (*_COMPARED, "partition", "timestamp")
"""Names of the columns of a record."""
_BYTES = ("string", "binary", "char", "varchar")
_MAX_LISTED = 10
"""Maximum number of rows of each kind in a message."""
_MAX_VALUE_CHARS = 200
"""Maximum length of a value in a message, in characters."""
_Rows = tuple["list[ComparedRow]", "list[ComparedRow]"]
"""The expected rows and the rows that were found."""


def assert_written(
    frame: DataFrame,
    broker: EmbeddedBroker,
    topic: str | None = None,
    *,
    options: Mapping[str, str] | None = None,
) -> None:
    """Check that a broker's topics contain the rows of a frame, and nothing else.

    Keys, values, topics and headers are compared, values that are JSON objects or arrays as JSON.
    Columns that are missing from the frame, partitions, and the order of rows are not compared. The
    records are those that a read_committed consumer receives. The message lists missing, unexpected
    and different rows by key::

        def test_my_job(spark, kafka_broker):
            run_my_job(kafka_broker.bootstrap_servers)
            expected = spark.createDataFrame([("k", "v")], "key string, value string")
            assert_written(expected, kafka_broker, "events")

    With the options of a write that sets `value.format` or `key.format`, the frame has the columns
    that were serialized, and records are decoded. Avro and Protobuf are decoded with the schema in
    the registry. Without a registry, or with `mock://`, they are decoded with the schema in the
    options, or with a schema derived from the frame. In the last case, the frame's columns must
    have the same nullability as those of the write.

    Args:
        frame: the expected rows, with the sink's column names.
        broker: the broker to which they were written.
        topic: the topic to read; None for the topic in `options`, or the topics in the column
            `topic`.
        options: options of the write.

    Raises:
        AssertionError: rows are missing, unexpected or different.
        ColumnError: a row of the frame cannot be serialized.
        ConfigError: an argument, an option or a column is wrong, there is neither a topic nor a
            column `topic`, or a record cannot be decoded.
        SchemaRegistryError: a schema cannot be read from the registry.
        UnknownTopicError: the topic does not exist.
    """
    __tracebackhide__ = True  # pytest shows the line of the test instead.
    call = "assert_written(frame, broker)"
    check_argument(call, frame, FRAME, ("columns", "sparkSession"))
    check_argument(call, broker, "an EmbeddedBroker", ("records",))
    config = None if options is None else SinkConfig.parse(options)
    if topic is None and config is not None:
        topic = config.topic
    if topic is None and "topic" not in frame.columns:
        raise ConfigError(
            "assert_written() needs a topic: the frame has no column `topic`",
            hint="Pass the topic name.",
        )
    if config is None or config.formats is None:
        expected, actual = _raw_rows(frame, broker, topic)
    else:
        expected, actual = _decoded_rows(frame, broker, topic, config, config.formats)
    differences = compare_rows(expected, actual)
    if differences:
        raise AssertionError("\n".join(differences))


def _raw_rows(frame: DataFrame, broker: EmbeddedBroker, topic: str | None) -> _Rows:
    """Return the rows of a frame with the columns of records, and the records."""
    names = [name for name in _COMPARED if name in frame.columns and _compared(name, topic)]
    _check_columns(frame, names)
    expected = [_row(names, row) for row in frame.select(*names).collect()]
    records = broker.records(*_topics(expected, topic))
    return expected, [_row(names, record._asdict()) for record in records]


def _check_columns(frame: DataFrame, names: Sequence[str]) -> None:
    """Check that a frame has columns of records, with their names and types.

    Raises:
        ConfigError: a column is missing, misspelled, or has a different type.
    """
    absent = [name for name in _COMPARED if name not in frame.columns]
    for name in frame.columns:
        meant = nearest(name, absent, MIN_TYPO_RATIO)
        if name not in _COLUMNS and meant:
            raise ConfigError(f"column {name} would not be compared", hint=f"Did you mean {meant}?")
    if not names:
        raise ConfigError(
            f"the frame has no column to compare: {', '.join(frame.columns)}",
            hint="Pass the options of a write that sets value.format or key.format; otherwise the "
            "frame needs the columns of the records, such as key and value.",
        )
    for name, type_ in frame.dtypes:
        if name in {"key", "value"} and not type_.startswith(_BYTES):
            raise ConfigError(
                f"column {name} is {type_}, but records have strings or binary values",
                hint=f"Cast it: col('{name}').cast('string').",
            )


def _decoded_rows(
    frame: DataFrame,
    broker: EmbeddedBroker,
    topic: str | None,
    config: SinkConfig,
    formats: FormatsConfig,
) -> _Rows:
    """Return the frame's rows after serializing and decoding them, and the decoded records."""
    from spark_kafka_sink.formats.decoder import decode_records  # only for formats
    from spark_kafka_sink.spark.rows.expected_rows import ExpectedRows

    rows_of_frame = ExpectedRows.of(frame, config, formats)
    names = [name for name in rows_of_frame.names if _compared(name, topic)]
    expected = [_row(names, row) for row in rows_of_frame.rows]
    records = broker.records(*_topics(expected, topic))
    decoded = decode_records(records, config, rows_of_frame.sources)
    return expected, [_row(names, record._asdict()) for record in decoded]


def _compared(name: str, topic: str | None) -> bool:
    return topic is None or name != "topic"


def _topics(expected: Sequence[ComparedRow], topic: str | None) -> list[str]:
    return sorted({row.topic for row in expected if row.topic}) if topic is None else [topic]


class ComparedRow(NamedTuple):
    """A row or record. Columns that are not compared are None."""

    topic: str | None
    key: bytes | None
    value: bytes | None
    """Canonical JSON if it is a JSON object or array."""
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def topic_and_key(self) -> TopicAndKey:
        """Topic and key."""
        return self.topic, self.key

    @property
    def name(self) -> str:
        """The key for messages, or the value if there is no key, with the topic if it is known."""
        text = _text(self.value if self.key is None else self.key)
        return text if self.topic is None else f"{text} in {self.topic}"


def _row(names: Sequence[str], row: Any) -> ComparedRow:
    """Return the compared columns of a row or a record."""
    compared = {name: row[name] for name in names}
    return ComparedRow(
        topic=compared.get("topic"),
        key=_bytes(compared.get("key")),
        value=_canonical(_bytes(compared.get("value"))),
        headers=tuple((str(name), _bytes(value)) for name, value in compared.get("headers") or ()),
    )


def _bytes(value: Any) -> bytes | None:
    """Return the bytes of a key or value. If it is decoded, return its JSON as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, bytes | bytearray):
        return None if value is None else bytes(value)
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_spelled).encode()


def _spelled(value: object) -> str:
    """Return a value that JSON does not support, such as a date, as text."""
    return repr(value) if isinstance(value, bytes) else str(value)


def _canonical(value: bytes | None) -> bytes | None:
    """Return the canonical form of a JSON object or array, and other values unchanged."""
    try:
        parsed = None if value is None else json.loads(value)
    except ValueError:
        return value
    if not isinstance(parsed, dict | list):
        return value
    return json.dumps(parsed, sort_keys=True, ensure_ascii=False).encode()


def compare_rows(expected: Sequence[ComparedRow], actual: Sequence[ComparedRow]) -> list[str]:
    """Return a message about the differences, as lines; empty if there are none.

    A missing row and an unexpected row count as one different row if they have the same key and no
    other such row has it.
    """
    missing = sorted((Counter(expected) - Counter(actual)).elements(), key=_order)
    unexpected = sorted((Counter(actual) - Counter(expected)).elements(), key=_order)
    if not missing and not unexpected:
        return []
    theirs, ours = _by_key(unexpected), _by_key(missing)
    pairs = [(ours[key], theirs[key]) for key in ours if key in theirs]
    paired = {key for key in ours if key in theirs}
    missing, unexpected = (
        [row for row in rows if (row.topic, row.key) not in paired]
        for rows in (missing, unexpected)
    )
    kinds = {
        "missing": [f"{row.name}{_rest(row)}" for row in missing],
        "unexpected": [f"{row.name}{_rest(row)}" for row in unexpected],
        "different": [f"{left.name}: {_difference(left, right)}" for left, right in pairs],
    }
    counts = ", ".join(f"{len(rows):,} {kind}" for kind, rows in kinds.items() if rows)
    first = (
        f"{plural(len(expected), 'row')} expected, {plural(len(actual), 'record')} found: {counts}"
    )
    return [first, *(line for kind, lines in kinds.items() for line in _listed(kind, lines))]


def _order(row: ComparedRow) -> tuple[str, bytes, bytes]:
    return row.topic or "", row.key or b"", row.value or b""


def _by_key(rows: Sequence[ComparedRow]) -> dict[TopicAndKey, ComparedRow]:
    """Return the rows whose key is unique within their topic."""
    counts = Counter(row.topic_and_key for row in rows if row.key is not None)
    return {row.topic_and_key: row for row in rows if counts[row.topic_and_key] == 1}


def _listed(kind: str, rows: Sequence[str]) -> list[str]:
    hidden = len(rows) - _MAX_LISTED
    note = [f"  and {hidden:,} more"] if hidden > 0 else []
    return [*(f"  {kind}: {row}" for row in rows[:_MAX_LISTED]), *note]


def _rest(row: ComparedRow) -> str:
    """Return the text after a row's name: the value (if the row has a key) and the headers."""
    value = f" = {_text(row.value)}" if row.key is not None and row.value is not None else ""
    return f"{value}{_headers(row)}"


def _headers(row: ComparedRow) -> str:
    pairs = ", ".join(f"{name}={_text(value)}" for name, value in row.headers)
    return f" with headers {pairs}" if pairs else ""


def _difference(expected: ComparedRow, actual: ComparedRow) -> str:
    parts = []
    if expected.value != actual.value:
        parts.append(_value_difference(expected.value, actual.value))
    if expected.headers != actual.headers:
        ours, theirs = (
            _headers(row).removeprefix(" with ") or "none" for row in (expected, actual)
        )
        parts.append(f"{ours} expected, {theirs} found")
    return "; ".join(parts)


def _value_difference(expected: bytes | None, actual: bytes | None) -> str:
    """Return the differing fields of two JSON objects; return other values as a whole."""
    ours, theirs = _object(expected), _object(actual)
    if ours is None or theirs is None:
        return f"value {_text(expected)} expected, {_text(actual)} found"
    fields = [name for name in sorted({*ours, *theirs}) if ours.get(name) != theirs.get(name)]
    if not fields:  # The field is null in one value and missing in the other.
        return f"value {_text(expected)} expected, {_text(actual)} found"
    return ", ".join(
        f"{name} {_field(ours, name)} expected, {_field(theirs, name)} found" for name in fields
    )


def _field(parsed: dict[str, Any], name: str) -> str:
    return _short(json.dumps(parsed[name], ensure_ascii=False)) if name in parsed else "nothing"


def _object(value: bytes | None) -> dict[str, Any] | None:
    """Return the value as a JSON object, or None if it is not an object."""
    try:
        parsed = json.loads(value or b"")
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None


def _text(data: bytes | None) -> str:
    return "null" if data is None else _short(data.decode("utf-8", "backslashreplace"))


def _short(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[:_MAX_VALUE_CHARS]}…"
