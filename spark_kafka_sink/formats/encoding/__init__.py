"""Append columns to rows of bytes, for all formats. `kafka.records.row_writer` builds the rows.

In reading order:

- `row_encoder`: encode structs as rows, and handle nulls
- `scalar_writers`: append values that formats encode in the same way
- `number_text`: format integers and decimals as text
- `float_text`: format floating-point numbers as text
- `time_text`: format dates, times and intervals as text
"""
