"""How the key or the value is encoded. The driver creates a spec, and tasks compile an encoder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from spark_kafka_sink.config.formats import Format
    from spark_kafka_sink.formats.columns.cells import Cells
    from spark_kafka_sink.formats.encoding.row_encoder import RowEncoder

    Check: TypeAlias = Callable[[Cells, bool], None]
    """Adds errors for entries that do not fit; none of the entries is null.

    The second argument is True if null fields are written, and False if they are omitted.
    """


@dataclass(frozen=True, slots=True)
class Framing:
    """How a record identifies its schema: with a prefix or a header."""

    prefix: bytes = b""
    """The bytes before each payload: 00, the schema id (four bytes, big-endian), and for Protobuf
    the message indexes.
    """
    header: tuple[str, bytes] | None = None
    """The key and the value of a header in each record; the value is 01 and the schema's GUID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderSpec:
    """How the key or the value is serialized: what a task needs to create its encoder."""

    format: Format
    fields: tuple[int, ...] | None = None
    """Indices of the DataFrame's columns that become fields; None if `column` is used."""
    column: int | None = None
    """Index of a struct column (with RAW, of any column); None if `fields` is used."""
    schema: str | None = None
    """Avro schema or JSON Schema as text, or a Protobuf descriptor in base64; None only for JSON
    without a registry.
    """
    check: Check | None = None
    """Check of the rows against a JSON Schema; None if every row fits."""
    message: str | None = None
    """Full name of the Protobuf message; name of the Avro record to choose in unions; None if the
    columns choose it, and for JSON.
    """
    is_single: bool = False
    """True if `fields` is the column `key` or `value`, written without a record."""
    framing: Framing = Framing()
    """The bytes before each payload."""
    zone: str = "UTC"
    """The session's time zone, for timestamps in JSON."""
    writes_nulls: bool | None = None
    """Write null fields in JSON as `null` instead of omitting them; None to follow the session's
    setting, which only tasks know.
    """
    subject: str | None = None
    """Subject of the schema in the registry, for the report."""
    schema_id: int | None = None
    """The schema's id in the registry, for the report."""

    @property
    def columns(self) -> tuple[int, ...]:
        """Indices of the DataFrame's columns that are encoded."""
        if self.fields is not None:
            return self.fields
        return () if self.column is None else (self.column,)


@dataclass(frozen=True, slots=True)
class UnregisteredSchema:
    """A schema that is not in the registry yet, or does not need a registry."""

    text: str
    """As `schema` in `EncoderSpec`."""
    name: str
    """Full name of the record, for the subject strategies."""
    message: str | None = None
    """As in `EncoderSpec`."""
    texts: tuple[tuple[str, str], ...] = ()
    """Names and texts of the Protobuf files that the options contain as text."""


class _DerivationModule(Protocol):
    """The interface of `json_derivation`, `avro_derivation` and `protobuf_derivation`."""

    def derive(self, type_: pa.StructType, name: str, namespace: str) -> UnregisteredSchema: ...


class _EncoderModule(Protocol):
    """The interface of `json_encoder`, `avro_encoder` and `protobuf_encoder`."""

    def compile_spec(self, spec: EncoderSpec, type_: pa.StructType) -> RowEncoder: ...


def derive_schema(
    format_: Format, type_: pa.StructType, name: str, namespace: str = ""
) -> UnregisteredSchema:
    """Derive the schema of a format from a DataFrame's columns.

    Args:
        format_: any format except RAW.
        type_: the columns, with the nullability in Spark.
        name: name of the record, Protobuf message or JSON Schema title.
        namespace: Avro namespace or Protobuf package; can be empty.

    Raises:
        ColumnError: a column has a type or name that the format cannot represent.
    """
    module: _DerivationModule = _import_module(format_, "derivation")
    return module.derive(type_, name, namespace)


@lru_cache(maxsize=64)
def compile_encoder(spec: EncoderSpec, type_: pa.StructType) -> RowEncoder:
    """Return the encoder for structs of this type, cached per process.

    Raises:
        ColumnError: a column does not fit the schema; the message contains the path.
        ConfigError: the schema is invalid or has unsupported parts.
    """
    module: _EncoderModule = _import_module(spec.format, "encoder")
    return module.compile_spec(spec, type_)


def _import_module(format_: Format, part: str) -> Any:
    """Import a module of this format, without the other formats' modules."""
    payload = format_.payload.value
    return import_module(f"spark_kafka_sink.formats.{payload}.{payload}_{part}")
