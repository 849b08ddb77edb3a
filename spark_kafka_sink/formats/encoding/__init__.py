"""Build rows of bytes from columns, for all formats.

In reading order:

- `varints`: varints of all rows at once
- `row_writer`: build rows of bytes from constants, short words, columns and nested rows
- `row_encoder`: encode structs as rows, and handle nulls
- `scalar_writers`: append values that formats encode in the same way
- `number_text`: format integers and decimals as text
- `float_text`: format floating-point numbers as text
- `time_text`: format dates, times and intervals as text
"""
