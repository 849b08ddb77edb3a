"""The Kafka client: connections, cluster metadata, and the thread that runs a session's sender.

In a task, the sender thread drives it; `admin.blocking_client` drives it from the caller's thread.

In reading order:

- `channel`: sockets, TLS and SASL for one connection, and why connections fail
- `request`: a request before it is sent, in flight, and completed
- `connection`: the protocol state of one connection, without I/O
- `broker_connection`: one broker's connection, its addresses, metrics and connection attempts
- `network`: all connections behind one selector
- `backoff`: exponential backoff with full jitter
- `outages`: rate-limited log messages about brokers that stay unreachable or do not respond
- `cluster_snapshot`: the immutable snapshot of brokers, topics and leaders
- `metadata_updater`: keeps the snapshot up to date
- `client`: owns network and metadata, runs the sender thread, remembers size limits
- `client_pool`: idle clients of a process, reused by its next task or driver step
"""
