"""Serialize columns as JSON, Avro or Protobuf, without Python code per record.

The driver creates plans for the key and the value. Tasks compile each plan once and use it to
encode every Arrow batch. The package is loaded only if `value.format` or `key.format` is set.

In reading order:

- `plan`: framing, the picklable plan, and `compile_encoder`
- `shape`: the format-independent meaning of a column's type
- `column`: the types of columns at any depth, and their paths
- `names`: the names that a format allows
- `row_faults`: faults of rows that do not fit a schema
- `cells`: the entries of a column in a batch
- `decimal_cells`: decimals as pairs of 64-bit numbers
- `varints`: varints of all rows at once
- `row_writer`: build rows of bytes from constants, short words, columns and nested rows
- `row_encoder`: encode structs as rows, and handle nulls
- `scalar_writers`: append values that formats encode in the same way
- `number_text`: format integers and decimals as text
- `float_text`: format floating-point numbers as text
- `time_text`: format dates, times and intervals as text
- `string_text`: escape strings, and encode bytes in base64
- `json_encoder`: JSON as Spark's `to_json` writes it, and JSON Schema
- `json_checks`: checks of rows against a JSON Schema
- `json_schema`: match a given JSON Schema to columns, and create the checks
- `avro_schema`: parse Avro schemas, and resolve their names
- `avro_references`: join an Avro schema with the registered schemas to which it refers
- `avro_derivation`: derive Avro schemas from columns
- `avro_defaults`: encode the defaults of Avro fields without a column
- `avro_unions`: match columns to Avro types, and choose the branches of unions
- `avro_encoder`: Avro's binary encoding
- `protobuf_wire`: read and write Protobuf messages without a schema
- `protobuf_files`: the files of a Protobuf schema
- `protobuf_kind`: the types and labels of fields
- `protobuf_features`: the features of editions that affect the encoding
- `protobuf_schema`: messages, fields and enums of a Protobuf schema
- `protobuf_framing`: the position of a message in its file, after the schema id
- `protobuf_derivation`: derive a Protobuf message from columns
- `protobuf_encoder`: Protobuf's binary encoding
- `protobuf_source`: read Protobuf schemas, and compile `.proto` text, on the driver
- `protobuf_text`: print Protobuf schemas as `.proto` text, on the driver
- `schemas_and_subjects`: schemas set by options or derived from columns, and their subjects
- `registry_client_settings`: address, login and TLS of the registry's client
- `registry`: register and look up schemas, on the driver
- `decoder`: decode written records, for tests of users' jobs
"""
