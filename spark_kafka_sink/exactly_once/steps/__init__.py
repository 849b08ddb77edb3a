"""The driver's operations on Kafka, in the order that `decision_rules` prescribes.

In reading order:

- `scope_client`: fence, read, append, end and describe
- `alive_checks`: whether the tasks' transactions last until they are committed
- `commit`: the commit of a batch
- `rejections`: the errors for batches that must not be written
- `abort`: the abort of a batch
- `torn`: the outcome of each transaction of a decided batch, and partially committed batches
- `recovery`: finish decided batches, of this driver's scope and of earlier runs
- `orphans`: find and abort transactions that can no longer be committed
"""
