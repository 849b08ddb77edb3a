"""Exactly-once writes in Spark: planning, tasks, and the driver's commit.

Which transactions are committed is decided in `spark_kafka_sink.exactly_once`, not here.

In reading order:

- `planning`: work on the driver before any task runs
- `write_plan`: the plan that all tasks receive, and the identity of a task
- `task_writer`: the write of one task in a transaction that stays open
- `messages`: the commit message of such a task
- `writers`: the writers, with commit and abort on the driver
- `timeouts`: the transaction timeout for tasks and driver
"""
