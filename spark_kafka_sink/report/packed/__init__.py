"""Delivery reports on their way from tasks to the driver: small, and merged as columns.

`partition_columns` has the counters of partitions as arrays, `packed_report` a whole report as
bytes.
"""
