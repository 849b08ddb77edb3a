"""Exactly-once writes on the driver: one durable decision per batch, then one EndTxn per task.

A task hands over its open transaction. The driver records all transactions of a batch in the
decision log and commits them. `protocol`, `commit_outcome` and the rules in `steps.orphans` are
pure functions. With atomicBatch=true all tasks of a batch share one transaction instead.

In reading order:

- `transactional_id`: scopes, and transactional ids built, parsed and matched
- `task_transaction`: the transaction that a task hands over to the driver
- `protocol`: the state of a scope, and the next step of planning, a task and the driver
- `commit_outcome`: the meaning of an EndTxn response, and the outcomes of commit and abort
- `log`: the decision log, a compacted topic
- `steps`: the steps against Kafka that planning, commit and abort consist of
- `committer`: the entry points for planning, commit and abort of a batch
- `shared_transaction`: the checks before a transaction of all tasks is committed, and task claims
- `operator`: list, describe, commit and abort transactions from the command line
"""
