"""Serialize the columns of an Arrow batch in a task, by the encoder specs of key and value.

A row with a field that does not fit the schema is a bad row: it fails the task, or becomes a dead
letter with its fields as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_sink.common.time_zones import is_known_zone
from spark_kafka_sink.config.formats import Format
from spark_kafka_sink.formats.columns.cells import NOT_UTF8, Cells
from spark_kafka_sink.formats.columns.encoding_errors import EncodingError, EncodingErrors
from spark_kafka_sink.formats.encoder_spec import EncoderSpec, compile_encoder
from spark_kafka_sink.kafka.records.header_lists import constant_column, with_headers
from spark_kafka_sink.kafka.records.record_encoder import encode_headers
from spark_kafka_sink.producer.bad_rows.row_error import RowError
from spark_kafka_sink.spark.runtime.internals import local_property

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from spark_kafka_sink.common.clock import Clock
    from spark_kafka_sink.spark.rows.row_checks import RowChecks
    from spark_kafka_sink.spark.schema.dataframe_schema import ColumnRoles

IGNORES_NULLS = "spark.sql.jsonGenerator.ignoreNullFields"
_HINT = (
    "Correct or filter such rows, change the schema, or set errors.tolerance=all with "
    "errors.deadletterqueue.topic.name to write them to another topic."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Serialized:
    """The serialized parts of n rows."""

    rows: int
    """Number of rows, n."""
    value: pa.BinaryArray | None
    """The values, null for a tombstone; None if the column is written unchanged."""
    key: pa.BinaryArray | None
    """The keys, in the same form as `value`."""
    headers: tuple[tuple[str, bytes], ...]
    """Key and value of headers that identify a schema."""
    problems: pa.StringArray | None
    """Why a row cannot be serialized; null if it can."""
    seconds: float
    """Time spent serializing."""

    def add_headers(
        self, lists: pa.ListArray[Any] | None, *, keep: bool
    ) -> tuple[pa.BinaryArray, pa.ListArray[Any] | None]:
        """Add `headers` to each row, and return the rows' encoded headers and header lists.

        Rows with problems get none, because they are JSON and not of the schema.

        Args:
            lists: the rows' existing headers; None if no row has headers.
            keep: return the lists even if no row has existing headers, because dead letters need
                them.
        """
        if lists is not None or self.problems is not None:
            added = [(name, constant_column(value, self.rows)) for name, value in self.headers]
            joined = with_headers(lists, added)
            if self.problems is not None:
                joined = _without_last(joined, np.asarray(self.problems.is_valid()), len(added))
            return encode_headers(joined), joined
        same = with_headers(
            None, [(name, constant_column(value, 1)) for name, value in self.headers]
        )
        encoded = constant_column(encode_headers(same)[0].as_py(), self.rows)
        kept = same.take(np.zeros(self.rows, np.int32)) if keep else None
        return cast("pa.BinaryArray", encoded), kept


def serialize(
    batch: pa.RecordBatch, roles: ColumnRoles, checks: RowChecks, *, zone: str, clock: Clock
) -> Serialized:
    """Return the keys and values of n rows; rows with errors are added to `checks`.

    `zone` is the Spark session's time zone.

    Raises:
        ColumnError: a field cannot be serialized, and errors are not tolerated.
    """
    drafts = (("key", roles.key_spec), ("value", roles.value_spec))
    specs = {
        part: with_settings(draft, zone, local_property(IGNORES_NULLS))
        for part, draft in drafts
        if draft is not None
    }
    parts = {part: encoded_structs(batch, spec) for part, spec in specs.items()}
    encoders = {part: compile_encoder(spec, parts[part].type) for part, spec in specs.items()}
    start = clock.monotonic()  # The first task of a worker also loads modules, which takes longer.
    problems: dict[int, str] = {}
    columns: dict[str, pa.BinaryArray] = {}
    bad: list[tuple[str, pa.StructArray, NDArray[np.intp]]] = []
    for part, spec in specs.items():
        structs = parts[part]
        errors = EncodingErrors(batch.num_rows)
        columns[part] = encoders[part].encode(structs, errors)
        if spec.check is not None:
            spec.check(Cells(structs, errors).without_nulls(), bool(spec.writes_nulls))
        _report_errors(part, errors, checks, problems)
        bad.append((part, structs, errors.rows))
    if problems:
        rows = np.unique(np.concatenate([rows for _, _, rows in bad]))
        for part, structs, _ in bad:
            columns[part] = _with_json(columns[part], structs, rows, specs[part])
    return Serialized(
        rows=batch.num_rows,
        value=columns.get("value"),
        key=columns.get("key"),
        headers=_schema_headers(roles),
        problems=_problem_texts(problems, batch.num_rows) if problems else None,
        seconds=clock.monotonic() - start,
    )


def encoded_structs(batch: pa.RecordBatch, spec: EncoderSpec) -> pa.StructArray:
    """Return the columns that are encoded as one struct per row."""
    if spec.fields is None:
        return cast("pa.StructArray", batch.column(cast("int", spec.column)))
    columns = [batch.column(index) for index in spec.fields]
    fields = [batch.schema.field(index) for index in spec.fields]
    return pa.StructArray.from_arrays(columns, fields=fields)


@lru_cache(maxsize=16)
def with_settings(spec: EncoderSpec, zone: str, ignores_nulls: str | None) -> EncoderSpec:
    """Return the spec with settings of the Spark session, which are unknown on the driver."""
    writes_nulls = spec.writes_nulls
    if writes_nulls is None:
        writes_nulls = (ignores_nulls or "true").strip().lower() == "false"
    return replace(spec, zone=zone, writes_nulls=writes_nulls)


def _report_errors(
    part: str, errors: EncodingErrors, checks: RowChecks, problems: dict[int, str]
) -> None:
    """Add the rows with errors to the checks, and descriptions of their errors to `problems`."""
    if not errors:
        return
    first = errors.of(int(errors.rows[0]))
    text = f"{_error_text(part, first)}, first in"
    checks.reject(errors.rows, RowError.UNSERIALIZABLE, text, _HINT)
    for error in errors:
        problems.setdefault(error.row, _error_text(part, error))


def _error_text(part: str, error: EncodingError) -> str:
    place = f"the field `{error.path}` of the {part}" if error.path else f"the {part}"
    return f"{place} {error.problem}"


def _with_json(
    encoded: pa.BinaryArray, structs: pa.StructArray, rows: NDArray[np.intp], spec: EncoderSpec
) -> pa.BinaryArray:
    """Return the column of a spec with these rows as JSON.

    Rows that JSON cannot represent become null. Bytes that are not UTF-8 become U+FFFD. Timestamps
    are in UTC if this host does not know the zone, which Avro and Protobuf do not need.
    """
    zone = spec.zone if is_known_zone(spec.zone) else "UTC"
    as_json = EncoderSpec(format=Format.JSON, column=0, zone=zone, writes_nulls=spec.writes_nulls)
    bad = structs.take(rows.astype(np.int64))
    errors = EncodingErrors(len(bad))
    texts = compile_encoder(as_json, bad.type).encode(bad, errors)
    if errors:
        lost = {error.row for error in errors if error.problem != NOT_UTF8}
        readable = (
            None if text is None or row in lost else text.decode(errors="replace").encode()
            for row, text in enumerate(texts.to_pylist())
        )
        texts = pa.array(readable, pa.binary())
    mask = np.zeros(len(encoded), np.bool_)
    mask[rows] = True
    return cast("pa.BinaryArray", pc.replace_with_mask(encoded, pa.array(mask), texts))


def _problem_texts(problems: dict[int, str], rows: int) -> pa.StringArray:
    numbers = np.fromiter(problems, np.int64, len(problems))
    indexes = np.zeros(rows, np.int32)
    indexes[numbers] = np.arange(1, len(problems) + 1)
    return pa.array([None, *problems.values()], pa.string()).take(indexes)


def _schema_headers(roles: ColumnRoles) -> tuple[tuple[str, bytes], ...]:
    specs = (roles.key_spec, roles.value_spec)
    return tuple(
        spec.framing.header
        for spec in specs
        if spec is not None and spec.framing.header is not None
    )


def _without_last(
    lists: pa.ListArray[Any], rows: NDArray[np.bool_], count: int
) -> pa.ListArray[Any]:
    """Return the lists without the last `count` entries of these rows, a mask of shape (n,)."""
    offsets = np.asarray(lists.offsets)
    lengths = np.diff(offsets)
    kept = lengths - count * rows
    positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
    entries = lists.values.filter(pa.array(positions < np.repeat(kept, lengths)))
    ends = np.concatenate([[0], np.cumsum(kept)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), entries)
