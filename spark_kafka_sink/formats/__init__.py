"""Serialise columns as JSON, Avro or Protobuf, without Python code per record.

The driver creates a plan for the key and one for the value; tasks compile the plan once and encode
each Arrow batch with it. Loaded only if `value.format` or `key.format` is set.

In reading order:

- `plan`: formats, framing, the picklable plan, and `compile_encoder`
- `fields`: column paths, faults of rows, cells at any depth, nulls, fields matched by name
- `writer`: rows of bytes joined from constants, short words, columns and nested rows
- `text`: numbers, dates and times as text
- `json`: JSON as Spark's `to_json` writes it, and JSON Schema
- `json_schema`: a given JSON Schema matched to columns
- `avro_schema`: Avro schemas, parsed and derived, and encoded defaults
- `avro`: Avro's binary encoding
- `protobuf_schema`: Protobuf descriptors, parsed and derived
- `protobuf`: Protobuf's binary encoding
- `sources`: schemas that options give or columns need, and their subjects
- `registry`: register and look up schemas, on the driver
- `decoder`: decode what was written, for tests of users' jobs
"""
