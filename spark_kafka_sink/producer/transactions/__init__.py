"""A session's transaction, from the coordinator's answer to the last acknowledgement.

Read settings.py, state.py (the table of states), then manager.py, which has the loop's part of it;
coordinator.py finds the coordinator, messages.py has the requests and their answers,
coordinator_policy.py decides about these, partitions.py is what transactions V1 ask for, timer.py
watches transaction.timeout.ms, errors.py says what went wrong. Whether the transaction is
committed is decided elsewhere: a session leaves it open, or aborts it.
Source: KIP-98, KIP-890, KIP-939; Kafka's ``TransactionManager``.
"""
