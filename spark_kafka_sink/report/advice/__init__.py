"""Advice on a finished report: which settings to change, how, and why.

In reading order:

- `advice`: one piece of advice
- `pipeline_facts`: the figures of a report on which advice is based
- `partition_facts`: how rows are distributed over partitions
- `arrow_advice`: the rules about the size of Spark's Arrow batches
- `batch_advice`: the rules about batches: their size, compression and buffer
- `partition_advice`: the rules about the distribution of rows over partitions
- `broker_advice`: the rules about brokers: their quotas, errors and response times
- `task_advice`: the rules about Spark's tasks
- `advice_rules`: all rules, in the order of their importance
"""
