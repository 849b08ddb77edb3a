"""A small in-process Kafka broker, for tests and demos that run without Kafka.

A request passes through `net` (sockets, frames, dispatch), `fault_injector` (if a test injects
faults), `authorization` and `handlers`. Handlers read and change the state in `cluster`,
`coordinator` and `partition`. `storage` and `redis` store the batches. A contract in
`pyproject.toml` specifies the allowed imports between the packages.

Only the event loop's thread accesses the state. With Redis, a second thread also accesses the
state, and both threads use the lock in `state_lock`.

In reading order:

- `embedded`: `EmbeddedBroker`, the class that tests and demos use
- `broker_runtime`: creates and connects the state, sockets and threads of a running broker
- `plain_settings`: the settings that are numbers and texts, with their descriptions
- `broker_config`: all settings of a broker, and its listener addresses
- `net`: event loop, sockets, request frames, SASL gate and dispatch to handlers
- `faults`: the faults that users inject, and their text form
- `fault_injector`: the effects of faults on requests
- `required_operations`: the operations that a client must be authorized for, by API
- `authorization`: checks which operations a client may perform, and removes denied items
- `request_shapes`: the fields for topics and partitions in requests, and for errors in responses
- `handlers`: the APIs that the broker supports, and the context that handlers receive
- `cluster`: nodes, topics, leaders, replicas, reassignments, dynamic configs and log maintenance
- `coordinator`: consumer groups and transactions
- `partition`: validation of batches, the log of a partition, producer and transaction state
- `storage`: logs in memory or on disk, and the journal of all other durable state
- `redis`: the storage backend that stores logs in Redis Streams
- `security`: TLS, SASL mechanisms, credentials and deny rules
- `purgatory`: delayed requests, which wait for a change or a deadline
- `state_lock`: the lock on the cluster's state, used if a separate thread handles requests
- `topic_config`: topic configs, and the broker configs that provide their defaults
- `log_levels`: the levels of the broker's loggers
- `jumping_clock`: the clock, whose wall time tests can change
- `kafka_releases`: the API versions that each release of Kafka supports
"""
