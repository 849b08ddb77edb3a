"""A finished report as text, HTML and tables for the terminal, and the comparison of two reports.

In reading order:

- `summary`: the lines of a report's summary; the report as text
- `partition_table`: the table of a report's partitions
- `notebook_html`: a report as HTML
- `key_figures`: the key figures of a report with their units, and the comparison of two reports
- `tables`: the summary, partitions, tasks and comparisons as tables for the terminal
"""
