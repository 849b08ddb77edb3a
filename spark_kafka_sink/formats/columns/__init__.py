"""The columns of a batch: their types, names, entries and errors, for all formats.

In reading order:

- `column_type`: the kinds and types of columns at any depth, and their paths
- `name_rules`: the names that a format allows
- `encoding_errors`: errors of rows that do not fit a schema
- `cells`: the entries of a column in a batch
- `decimal_cells`: decimals as pairs of 64-bit numbers
"""
