"""A session's transaction, from InitProducerId to the last acknowledged batch.

A session does not commit. It aborts the transaction, or leaves it open so that the caller can
commit. Source: KIP-98, KIP-890, KIP-939; Kafka's ``TransactionManager``.

In reading order:

- `transaction_settings`: the settings
- `producer_transaction_state`: the states and their transitions
- `transaction_errors`: errors of the whole transaction
- `transaction_partitions`: the partitions to add (transactions V1)
- `transaction_timer`: when the transaction began, and its timeout
- `transaction_manager`: drives the transaction from the sender's loop
- `abort_flag_check`: checks that the driver has not aborted the write
- `transaction_abort`: the abort of a failed transaction: its request, and what a response means
- `find_coordinator`: finds the coordinator, and connects to it
- `coordinator_requests`: builds the requests to coordinators
- `coordinator_errors`: determines how to handle the errors of coordinators
"""
