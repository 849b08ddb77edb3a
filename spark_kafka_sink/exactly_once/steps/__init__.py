"""The driver's operations on Kafka, in the order that `protocol` prescribes.

In reading order:

- `driver`: fence, read and append; timing; the checks before a decision
- `commit`: the commit of a batch
- `abort`: the abort of a batch
- `recovery`: finish decided batches: EndTxn, transaction markers, partially committed batches
- `orphans`: find and abort transactions that can no longer be committed
"""
