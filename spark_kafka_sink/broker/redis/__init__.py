"""Redis as storage: each partition is a Redis Stream, each record a stream entry.

In reading order:

- `storage`: `RedisBackend`, the `StorageBackend`, the broker's journal as a Redis hash, and
  `RedisLogStorage`, the `LogStorage` of one partition
- `streams`: the two streams of a partition (records and batch headers), batches built from their
  entries, and waiting for Redis replicas (WAIT)
- `entries`: conversion of records to stream entries and back, and of offsets to entry ids
- `connection`: `RedisLocation`, the parsed storage URL, and one pipelined connection
"""
