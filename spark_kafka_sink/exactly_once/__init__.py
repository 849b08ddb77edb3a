"""Exactly-once writes on the driver: one durable decision per batch, then one EndTxn per task.

A task leaves its transaction open and reports it to the driver. The driver records all transactions
of a batch in the decision log and commits them. `decision_rules`, `orphan_rules` and
`commit_outcome` are pure functions. With atomicBatch=true, all tasks of a batch share one
transaction instead.

In reading order:

- `transactional_id`: scopes, and functions that build, parse and match transactional ids
- `task_transaction`: the open transaction that a task reports to the driver
- `scope_state`: the state of a scope: no batch yet, a decided batch, or a done batch
- `batch_rejection`: the reasons why a batch must not be written, with their texts and hints
- `decision_rules`: the next step of planning, a task and the driver, given the state of a scope
- `orphan_rules`: which open transactions no driver can commit any more
- `commit_outcome`: the meaning of an EndTxn response, and the results of commit and abort
- `json_fields`: reads JSON objects and checks their fields
- `decision_record`: a record of the decision log as data and as JSON text
- `decision_messages`: the log's keys and chunks, and the latest record of each scope
- `decision_log`: creates, reads and appends to the decision log, which is a compacted topic
- `shared_transaction`: claims and checks of a transaction that all tasks share (atomicBatch=true)
- `steps`: the operations on Kafka that make up planning, commit and abort
- `committer`: the entry points for planning, commit and abort of a batch
- `open_transactions`: the open transactions of a prefix, and the partitions that they block
- `operator_commands`: lists, describes, commits and aborts transactions for the command line
"""
