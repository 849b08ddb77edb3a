"""Consumer groups and transactions, as Kafka's coordinators run them.

Groups: group_coordinator finds them, classic_group is one of them with its group_member objects,
group_offsets what it has committed; subscriptions and group_config stand beside. Transactions:
transaction_coordinator serves requests by the decisions of transaction_transitions over
transaction_metadata, transaction_markers ends them in partitions, transaction_verification is asked
before records are written, transaction_store and transactional_offsets keep them.
"""
