"""Benchmarks of whole Spark writes, compared with Spark's own sink and with hand-written code.

- `contestants`: the sinks, and how their writes are measured
- `child`: the Spark processes that write
- `writes`: the comparisons
- `micro_batches`: short micro-batches of a stream
"""
