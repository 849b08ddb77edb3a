"""Check step by step whether a write with a given configuration would work.

The command `kafkaprod doctor` runs these checks for a user, and the driver runs them before a
write. Only `broker_checks`, `produce_check`, `preflight` and `doctor` query the brokers.

In reading order:

- `finding`: the result of one check, with step, severity, text and hint
- `connection_checks`: judge connections, by step and by broker
- `topic_facts`: what is known about a topic
- `topic_checks`: check a topic's existence, partitions, leaders and permissions
- `topic_settings`: check a topic's settings against the write
- `planned_write`: the write that is checked
- `broker_checks`: run these checks against the brokers, with a deadline for each query
- `produce_check`: check that a leader accepts records, by sending a probe or a single record
- `schema_checks`: check the schemas of key and value in the registry
- `preflight`: the checks that the driver runs before any task
- `doctor`: the checks of `kafkaprod doctor`, which include those of schemas
- `verify_report`: checks that the records of a delivery report still exist
"""
