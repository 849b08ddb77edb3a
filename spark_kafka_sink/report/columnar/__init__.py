"""A report as columns of numbers, which are merged and sent without one object per partition.

In reading order:

- `packed_numbers`: numbers as bytes that compress well
- `broker_columns`: broker metrics as columns, which are merged without creating objects
- `partition_columns`: partition counters as such columns
- `report_columns`: a report with both, and how such reports are merged
"""
