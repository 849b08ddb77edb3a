"""Checks whether a write with a given configuration would work, step by step.

The command `kafkaprod doctor` runs them for a user, and the driver runs them before a write.
`finding`, `topics` and `permissions` are pure; the other modules query the brokers.

In reading order:

- `finding`: the result of one check: step, severity, text and hint
- `topics`: check a topic's existence and settings against the write
- `permissions`: check the operations that the brokers allow this client on a topic
- `examination`: query the brokers for what these checks need, with a deadline for each query
- `transactional_ids`: check that transactional ids under the prefix may be used
- `produce_check`: check that a leader accepts records, without writing one or with one record
- `preflight`: the checks that the driver makes before any task
- `doctor`: the checks of `kafkaprod doctor`
"""
