"""Tasks, planning, commit and abort of deliveryGuarantee=exactly-once.

In reading order:

- `exactly_once_plan`: which batches the tasks write, and in which transactions
- `running_query`: the query, micro-batch and run of the current task
- `row_counter`: counts a task's rows and collects their topics
- `transaction_commit_messages`: the tasks' commit messages, and what the driver reads from them
- `transactional_task`: tasks of deliveryGuarantee=exactly-once, which leave transactions open
- `transaction_timeouts`: the timeout of the tasks' transactions
- `outcome_text`: what a failed batch reports
- `completion`: commit and abort of exactly-once writes on the driver
- `planning`: planning of exactly-once writes on the driver
"""
