"""Metrics of a running producer.

In reading order:

- `histogram`: distributions of times and sizes that can be merged exactly
- `merging`: how metrics and reports are merged, field by field
- `producer_metrics`: the result, which is merged over tasks and part of the delivery report; the
  counters that the sender thread updates while the producer runs
"""
