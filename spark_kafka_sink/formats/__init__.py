"""Serialize columns as JSON, Avro or Protobuf, without Python code per record.

The driver creates an `EncoderSpec` for the key and the value. Tasks compile it once to an encoder
for all Arrow batches. The package is loaded only if `value.format` or `key.format` is set.

In reading order:

- `encoder_spec`: framing, the picklable `EncoderSpec`, and `compile_encoder`
- `columns`: the columns of a batch, their types and entries, for all formats
- `encoding`: rows of bytes, numbers, times and strings, for all formats
- `json`: JSON as Spark's `to_json` writes it, and JSON Schema
- `avro`: Avro's schemas, unions, defaults and binary encoding
- `protobuf`: Protobuf's schemas, features, `.proto` text and binary encoding
- `registry`: schemas from options, columns and a registry, on the driver
- `decoder`: decode written records, for tests of users' jobs
"""
