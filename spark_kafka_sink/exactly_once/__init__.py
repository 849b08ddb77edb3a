"""The driver's side of exactly once: one durable decision per batch, then one EndTxn per task.

Read in this order: `scope` and `transactional_id` (what is fenced together, and its names),
`task_transaction` (what tasks hand over), `protocol` (what is to be done, as pure functions),
`decision` and `decision_log` (the record that decides), `committer` (which carries it out).
"""
