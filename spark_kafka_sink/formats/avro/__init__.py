"""Avro: schemas, unions, defaults and the binary encoding.

In reading order:

- `avro_schema`: parse Avro schemas, and resolve their names
- `avro_references`: join an Avro schema with the registered schemas to which it refers
- `avro_derivation`: derive Avro schemas from columns
- `avro_defaults`: encode the defaults of Avro fields without a column
- `avro_branches`: match columns to Avro types, and choose the branches of unions
- `avro_writers`: write cells in Avro's binary encoding
- `avro_encoder`: match columns to an Avro schema, and create their writers
"""
