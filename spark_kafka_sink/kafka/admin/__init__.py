"""Blocking requests, sent on the caller's thread: transactions and topics.

This package is used by the driver, its planning and commit processes, and the command line. Tasks
use it only to create topics.

In reading order:

- `blocking_client`: a Kafka client that runs on the caller's thread and is reused between calls
- `coordinator_cache`: the coordinators of transactional ids, as the brokers last returned them
- `acl_errors`: the errors for unauthorized requests
- `lookups`: determines the broker to which requests for a key are sent
- `api_driver`: sends requests for many keys, and retries each key until its result is final
- `coordinator_lookup`: looks up the coordinators of transactional ids
- `transaction_description`: the states of transactions and their producers
- `transaction_handlers`: the requests about transactions, and their results
- `transaction_admin`: starts, ends, describes, lists and fences transactions
- `partition_offsets`: the first offset of a partition, and the offset at which readers must stop
- `topic_handlers`: the requests about topics and configs, and their results
- `topic_admin`: creates and describes topics, and reads topic and broker settings
- `topic_creator`: creates the missing topics of a write
"""
