"""The Kafka client: connections, cluster metadata, and the thread that runs a session's sender.

In a task, the sender thread runs the client. `admin.blocking_client` runs it on the caller's
thread.

In reading order:

- `channel`: sockets, TLS and SASL for one connection, and the diagnosis of connection failures
- `request`: requests before they are sent, in flight, and completed
- `connection`: the protocol state of one connection, without I/O
- `broker_connection`: one broker's connection, its addresses, metrics and connection attempts
- `network`: all connections of a client, which share one selector
- `backoff`: exponential backoff with full jitter
- `outages`: rate-limited log messages about brokers that are unreachable or do not respond
- `cluster_snapshot`: the immutable snapshot of brokers, topics and leaders
- `metadata_updater`: updates the snapshot
- `client`: the network, metadata, sender thread and learned size limits of one configuration
- `client_pool`: idle clients of a process, which its next task or driver step reuses
"""
