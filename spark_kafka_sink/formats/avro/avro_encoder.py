"""Match columns to an Avro schema, and create their writers.

Columns are matched to a record's fields by name, in the order of the schema. A narrower column can
be written to a wider field. A wider integer column can be written to a narrower field: a number
that does not fit is an error of its row. A field without a column gets its default, or null.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_kafka_sink.common.errors import ColumnError, ConfigError
from spark_kafka_sink.formats.avro.avro_branches import (
    MAP_KEYS,
    BranchChooser,
    candidate_branches,
    member_branches,
)
from spark_kafka_sink.formats.avro.avro_defaults import default_bytes
from spark_kafka_sink.formats.avro.avro_schema import AvroSchema
from spark_kafka_sink.formats.avro.avro_writers import (
    scalar_writer,
    text_writer,
    write_block,
    write_first_fitting,
    write_member,
    write_nullable,
    write_record,
)
from spark_kafka_sink.formats.columns.column_type import (
    ColumnKind,
    ColumnType,
    field_path,
    join_reasons,
    missing_hint,
    not_declared_error,
    unsupported_error,
)
from spark_kafka_sink.formats.encoding import scalar_writers
from spark_kafka_sink.formats.encoding.row_encoder import (
    CellWriter,
    RowEncoder,
    write_entry,
    write_required,
)
from spark_kafka_sink.kafka.records.varint import varint

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from spark_kafka_sink.formats.encoder_spec import EncoderSpec


def compile_spec(spec: EncoderSpec, type_: pa.StructType) -> RowEncoder:
    """See `encoder_spec.compile_encoder`."""
    schema = AvroSchema.parse(spec.schema or "", spec.message)
    column = ColumnType.of(type_)
    if not spec.is_single and not (spec.fields is not None and _is_single(schema)):
        return RowEncoder(_compile_writer(schema, column), spec.framing.prefix)
    if len(column.children) != 1:
        raise ColumnError(
            f"the Avro type {schema.full_name} is written from one column, but there are "
            f"{len(column.children)}: {', '.join(child.name for child in column.children)}",
            hint="List one column in value.fields or key.fields, or use the schema of a record.",
        )
    (child,) = column.children
    if spec.is_single and schema.is_record:
        raise ColumnError(
            f"the column `{child.name}` is not a struct, but the Avro type {schema.full_name} is a "
            "record",
            hint=f"List the record's columns: {child.name}.fields=..., with `{child.name}` if it "
            "is a field; or rename the column.",
        )
    # With a registry, clients in Java and Python write and read bytes without their length.
    is_bare = spec.format.has_registry and schema.kind == "bytes"
    write_cells = _bare_bytes(child) if is_bare else _compile_writer(schema, child)
    return RowEncoder(write_cells, spec.framing.prefix, is_single=True)


def _compile_writer(schema: AvroSchema, column: ColumnType) -> CellWriter:
    """Return the writer of a column.

    Raises:
        ColumnError: the schema does not accept the column's type.
        ConfigError: no column is written to a record with one of the schema's `records`.
    """
    compiler = _Compiler()
    write_cells = compiler.field_writer(schema, column)
    for name in schema.records:
        if not any(name in (full, full.rpartition(".")[2]) for full in compiler.written_records):
            raise ConfigError(
                "value.schema.name (for the key, key.schema.name) has no effect: no column is "
                f"written to a union with the record {name!r}",
                hint="Add the column, or remove the name.",
            )
    return write_cells


def _is_single(schema: AvroSchema) -> bool:
    return not any(branch.is_record for branch in schema.branches)


def _bare_bytes(column: ColumnType) -> CellWriter:
    if column.kind not in (ColumnKind.BYTES, ColumnKind.TEXT):
        raise unsupported_error(column, "Avro bytes with a schema registry")
    return lambda cells, out: out.append_column(cells.binary_values())


@dataclass(frozen=True, slots=True)
class _Compiler:
    """Creates the writers for the columns of one schema."""

    chooser: BranchChooser = field(default_factory=BranchChooser)
    written_records: set[str] = field(default_factory=set)
    """Full names of the records that the columns choose, or could choose with null."""

    def field_writer(self, schema: AvroSchema, column: ColumnType) -> CellWriter:
        """Return the writer of a field, item or value. It accepts null only in a union with null.

        Raises:
            ColumnError: the schema does not accept the column's type.
        """
        if schema.kind == "null" and column.kind is ColumnKind.NULL:
            return scalar_writers.write_nothing
        if schema.kind != "union":
            return partial(write_required, self._type_writer(schema, column), column.path)
        if column.kind in (ColumnKind.STRUCT, ColumnKind.NULL):
            self.written_records.update(
                branch.full_name for branch in schema.selected_records(schema.branches)
            )
        kinds = [branch.kind for branch in schema.branches]
        writers = [
            (varint(index), self._type_writer(branch, column))
            for index, branch in self.chooser.choose_branches(schema, column)
        ]
        null = varint(kinds.index("null")) if "null" in kinds else None
        if not writers and (members := member_branches(schema, column)):
            return self._members_writer(members, null, column)
        if not writers and (column.kind is not ColumnKind.NULL or "null" not in kinds):
            raise self._no_branch_error(schema, column)
        if len(writers) == 1:
            ((branch, write_cells),) = writers
            if null is None:
                return partial(write_required, write_cells, column.path, before=branch)
            return partial(write_nullable, write_cells, branch, null)
        return partial(write_first_fitting, writers, null, column.path)

    def _members_writer(
        self, branches: Sequence[tuple[int, AvroSchema]], null: bytes | None, column: ColumnType
    ) -> CellWriter:
        """Return the writer of a struct with one field for each branch."""
        writers = [
            (varint(index), self._type_writer(branch, child))
            for (index, branch), child in zip(branches, column.children, strict=True)
        ]
        write = partial(write_member, writers, null, column.path)
        if null is None:
            return partial(write_required, write, column.path)
        return partial(write_nullable, write, b"", null)

    def _no_branch_error(self, schema: AvroSchema, column: ColumnType) -> ColumnError:
        """Return the error for a column that no branch of a union accepts, with the reasons."""
        reasons: list[ColumnError] = []
        for _, branch in candidate_branches(schema, column):
            try:
                self._type_writer(branch, column)
            except ColumnError as error:
                reasons.append(error)
        if len(reasons) == 1:
            return reasons[0]
        return ColumnError(
            f"{column.label} fits no branch of the Avro union"
            + join_reasons([error.message for error in reasons]),
            hint="Cast the column, or add its type to the union.",
        )

    def _type_writer(self, schema: AvroSchema, column: ColumnType) -> CellWriter:
        """Return the writer of a type other than a union."""
        if column.kind is ColumnKind.NULL:
            return scalar_writers.write_nothing
        if column.kind is ColumnKind.STRUCT and schema.is_record:
            return self._record_writer(schema, column)
        if column.kind is ColumnKind.LIST and schema.kind == "array":
            return partial(write_block, self.field_writer(schema.element, column.children[0]))
        if column.kind is ColumnKind.MAP and schema.kind == "map":
            return self._map_writer(schema, *column.children)
        if self.chooser.closeness(schema, column) is None:
            raise unsupported_error(column, f"Avro {schema.label}")
        return scalar_writer(schema, column)

    def _record_writer(self, schema: AvroSchema, column: ColumnType) -> CellWriter:
        self.written_records.add(schema.full_name)
        columns = {child.name: (index, child) for index, child in enumerate(column.children)}
        fields: list[tuple[int, CellWriter] | bytes] = []
        for name, type_, declared in schema.fields:
            if name in columns:
                index, child = columns.pop(name)
                fields.append((index, self.field_writer(type_, child)))
            else:
                fields.append(_encoded_default(type_, declared, schema, column))
        for _, unknown in columns.values():
            raise not_declared_error(unknown, schema.full_name)
        return partial(write_record, fields)

    def _map_writer(self, schema: AvroSchema, key: ColumnType, value: ColumnType) -> CellWriter:
        if key.kind not in MAP_KEYS:
            raise unsupported_error(key, "the key of an Avro map")
        is_null = key.kind is ColumnKind.NULL
        name = scalar_writers.write_nothing if is_null else text_writer(key.path)
        entry = partial(write_entry, name, self.field_writer(schema.element, value))
        return partial(write_block, entry)


def _encoded_default(
    type_: AvroSchema, declared: dict[str, Any], record: AvroSchema, column: ColumnType
) -> bytes:
    """Return the encoded default of a field without a column, or null if it is only nullable."""
    if "default" in declared:
        return default_bytes(type_, declared)
    if type_.accepts_null:
        kinds = [branch.kind for branch in type_.branches]
        return varint(kinds.index("null")) if type_.kind == "union" else b""
    name = declared["name"]
    raise ColumnError(
        f"the field `{field_path(column.path, name)}` of {record.full_name} has no column and no "
        "default",
        hint=missing_hint(name, column, "Add the column, or a default to the schema."),
    )
