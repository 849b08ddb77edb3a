"""The Kafka client: connections, cluster metadata, and the thread that runs a session's sender.

In a task, the client runs on the sender thread. In `blocking`, it runs on the caller's thread.

In reading order:

- `channel`: sockets, TLS and SASL for one connection, and the diagnosis of connection failures
- `request`: requests before they are sent, in flight, and completed
- `closed_connections`: brokers that close the connection on each request of an API
- `node_api_versions`: the API versions of a broker
- `connection_protocol`: the protocol state of one connection, without I/O
- `connection_attempts`: a broker's addresses, failed attempts and backoff
- `broker_connection`: one broker's connection
- `broker_meters`: counters and times of each broker
- `connection_metrics`: counts and logs the events of all connections
- `connection_opener`: opens connections and logs in
- `network_client`: all connections of a client, which share one selector
- `backoff`: exponential backoff with full jitter
- `outages`: rate-limited log messages about brokers that are unreachable or unresponsive
- `cluster_snapshot`: the immutable snapshot of brokers, topics and leaders
- `metadata`: updates the snapshot
- `topic_denials`: topics that the client may not describe or create
- `removed_partitions`: partitions of topics that were recreated with fewer
- `rebootstrap_timer`: when to connect to the bootstrap servers again
- `client`: network, metadata and sender thread for one configuration
- `client_pool`: a process's idle clients, for reuse by the next task or driver step
"""
