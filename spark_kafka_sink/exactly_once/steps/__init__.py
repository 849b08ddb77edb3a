"""The driver's operations on Kafka, in the order that `decision_rules` prescribes.

In reading order:

- `call_timer`: the clock and the time limit of one planning, commit or abort
- `scope_log`: reads, appends and confirms the records of a scope in the decision log
- `scope_client`: fences, ends and describes transactions of a scope, and checks the brokers
- `transaction_checks`: checks that the tasks' transactions last until they are committed
- `commit`: the commit of a batch
- `end_transactions`: ends the transactions of decided batches, and records their fates
- `fates`: determines the fate of each transaction of a decided batch
- `torn_error`: the error for a partially committed batch
- `rejection_error`: the errors for batches that must not be written
- `recovery`: finishes decided batches of earlier drivers, of this scope and of earlier runs
- `abort`: the abort of a batch
- `shared_commit`: begins, commits and aborts the transaction that all tasks of a batch share
- `orphans`: finds and aborts transactions that can no longer be committed
"""
