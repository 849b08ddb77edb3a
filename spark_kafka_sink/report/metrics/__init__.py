"""Metrics of a running producer.

In reading order:

- `histogram`: distributions of times and sizes that can be merged exactly
- `producer_metrics`: the result, which is merged over tasks and part of the delivery report; the
  counters that the sender thread updates while the producer runs
"""
