"""JSON as Spark's `to_json` writes it, and JSON Schema.

In reading order:

- `json_encoder`: JSON as Spark's `to_json` writes it, and JSON Schema
- `json_checks`: checks of rows against a JSON Schema
- `json_check_compiler`: match a given JSON Schema to columns, and create the checks
- `json_documents`: its documents and their drafts
- `json_references`: the references between the documents
- `json_rules`: rules that match the keywords to columns
"""
