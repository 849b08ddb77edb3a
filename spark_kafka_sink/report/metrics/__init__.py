"""Metrics of a running producer.

In reading order:

- `merging`: how metrics and reports are merged, field by field
- `producer_metrics`: the metrics, which are merged over tasks and part of the delivery report
- `metrics_recorder`: the counters of a running producer, from which the metrics are built
"""
