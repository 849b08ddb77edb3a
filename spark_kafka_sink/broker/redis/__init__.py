"""Storage in Redis. Each partition is a Redis Stream, and each record is a stream entry.

In reading order:

- `backend`: `RedisBackend`, the `StorageBackend`
- `stream_storage`: `RedisLogStorage`, the `LogStorage` of one partition
- `hash_journal`: the broker's journal in a Redis hash
- `streams`: the two streams of a partition (records and batch headers)
- `batch_entry`: conversion of the entries of both streams to batches
- `replicas`: waiting for Redis replicas (WAIT)
- `entries`: conversion of records to stream entries and back, and of offsets to entry ids
- `location`: the parsed storage URL
- `connection`: a pipelined connection
- `owned_connection`: a connection whose broker owns the data of a prefix exclusively
"""
