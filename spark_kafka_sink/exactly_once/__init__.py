"""The driver's side of exactly once: one durable decision per batch, then one EndTxn per task.

Read in this order: `scope` and `transactional_id` (what is fenced together, and its names),
`task_transaction` (what tasks hand over), `log_state`, `protocol`, `end_outcome` and `orphans`
(what is to be done, as pure functions), `log` (the record that decides), `steps` (what is done to
Kafka), `committer` (what planning, commit and abort of a batch call). With atomicBatch=true there
is one transaction for all tasks: `shared_transaction`, `claim` and `steps.shared`.
"""
