"""Protobuf: schemas, features, `.proto` text and the binary encoding.

In reading order:

- `protobuf_wire`: read and write Protobuf messages without a schema
- `protobuf_descriptor`: field numbers of `google/protobuf/descriptor.proto`
- `protobuf_files`: the files of a Protobuf schema
- `protobuf_types`: the types and labels of fields
- `protobuf_features`: the features of editions that affect the encoding
- `protobuf_schema`: messages, fields and enums of a Protobuf schema
- `protobuf_indexes`: the position of a message in its file, after the schema id
- `protobuf_numbers`: the numbers of a derived message's fields, as in earlier versions
- `protobuf_derivation`: derive a Protobuf message from columns
- `protobuf_encoder`: Protobuf's binary encoding
- `protobuf_compiler`: read Protobuf schemas, and compile `.proto` text, on the driver
- `protobuf_printer`: print Protobuf schemas as `.proto` text, on the driver
"""
