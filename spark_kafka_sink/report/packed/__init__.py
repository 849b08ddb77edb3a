"""Delivery reports on their way from tasks to the driver: small, and merged as columns.

`partition_columns` and `broker_columns` have the counters of partitions and the metrics of brokers
as arrays, `planes` has the bytes of their numbers, `packed_report` a whole report as bytes.
"""
