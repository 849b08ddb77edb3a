"""A small in-process Kafka broker, for tests and demos that should run without Kafka.

A request passes through `net` (sockets, frames, dispatch), `faults` (if a test injects faults),
`authorization` and `handlers`, which read and change the state in `cluster`, `coordinator` and
`partition`; `storage` and `redis` store the batches. A contract in `pyproject.toml` defines the
allowed imports between the packages.

The state is accessed only by the event loop's thread or, with Redis, by the thread that holds the
lock in `state_lock`.

In reading order:

- `embedded`: `EmbeddedBroker`, the class that tests and demos use, and `BrokerRuntime`, which
  creates and connects the state, sockets and threads
- `config`: `BrokerConfig`, all settings of a broker, and its listener addresses
- `net`: event loop, sockets, request frames, SASL gate and dispatch to handlers
- `faults`: fault injection: faults, their text form, and their effect on requests
- `authorization`: operations that each API requires, and removal of denied items
- `request_shapes`: fields in which requests name topics and partitions, and responses report errors
- `handlers`: the APIs that the broker serves, and the context that handlers receive
- `cluster`: nodes, topics, leaders, replicas, reassignments, dynamic configs and log maintenance
- `coordinator`: consumer groups and transactions
- `partition`: validation of batches, the log of a partition, producer and transaction state
- `storage`: logs in memory or on disk, and the journal of all other durable state
- `redis`: the storage backend that keeps logs in Redis Streams
- `security`: TLS, SASL mechanisms, credentials and deny rules
- `purgatory`: delayed operations: requests that wait for a change or a deadline
- `state_lock`: the lock on the cluster's state, used if requests have their own thread
- `topic_config`: topic configs and the broker configs that they default to
- `releases`: the API versions that each release of Kafka serves
- `topic_partition`: the `TopicPartition` type
"""
