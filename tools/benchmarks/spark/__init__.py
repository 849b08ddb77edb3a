"""Benchmarks of whole Spark writes, compared with Spark's own sink and with hand-written code.

- `contestants`: the sinks, and how their writes are measured
- `child`: the Spark processes that write
- `writes`: writes with all codecs, with null keys and keyed
- `format_writes`: writes with `value.format`
- `sweeps`: writes to more partitions and topics
- `first_writes`: the first writes of a session
- `micro_batches`: short micro-batches of a stream
"""
