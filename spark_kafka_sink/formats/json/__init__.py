"""JSON as Spark's `to_json` writes it, and JSON Schema.

In reading order:

- `json_encoder`: encode columns as `to_json` does
- `json_derivation`: derive a JSON Schema from columns
- `json_name_patterns`: patterns for the names of fields and map entries
- `json_checks`: checks of rows against a given JSON Schema, which tasks execute
- `json_check_compiler`: match a given JSON Schema to columns on the driver, and create the checks
- `json_documents`: the documents of a JSON Schema, and their drafts
- `json_references`: the references between the documents
- `json_validator`: validators of the library `jsonschema` that apply the rules to columns
- `json_matching`: match a column and its children to a JSON Schema
- `json_declared_fields`: the fields that a JSON Schema declares, for `unevaluatedProperties`
- `json_rules`: the rules for the keywords of a JSON Schema
"""
