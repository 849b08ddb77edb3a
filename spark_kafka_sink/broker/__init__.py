"""A small in-process Kafka broker, for tests and demos that run without Kafka.

A request passes through `net` (sockets, frames, dispatch), `faults` (if a test injects faults),
`authorization` and `handlers`. Handlers read and change the state in `cluster`, `coordinator` and
`partition`. `storage` and `redis` store the batches. A contract in `pyproject.toml` specifies the
allowed imports between the packages.

Only the event loop's thread accesses the state. With Redis, a second thread also accesses the
state, and both threads use `StateLock`.

In reading order:

- `embedded`: `EmbeddedBroker`, the class that tests and demos use
- `broker_runtime`: creates and connects the state, sockets and threads of a running broker
- `config`: all settings of a broker, topic configs, and releases of Kafka
- `net`: event loop, sockets, request frames, SASL gate and dispatch to handlers
- `faults`: the faults that users inject, and their effects on requests
- `authorization`: deny rules, and what requests require; removes denied items from requests
- `requests`: the fields of requests and responses by API, and delayed requests
- `handlers`: the APIs that the broker supports, and the context that handlers receive
- `cluster`: nodes, topics, leaders, replicas, reassignments, dynamic configs and log maintenance
- `coordinator`: consumer groups and transactions
- `partition`: validation of batches, the log of a partition, producer and transaction state
- `storage`: logs in memory or on disk, and the journal of all other durable state
- `redis`: the storage backend that stores logs in Redis Streams
- `security_controls`: the methods of `EmbeddedBroker` for security, and the client options
- `server_security`: certificates, users and deny rules of a broker
- `security`: TLS, SASL mechanisms and credentials
"""
