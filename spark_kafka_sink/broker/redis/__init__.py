"""Where batches lie when the storage is a Redis: a partition is a stream, a record an entry.

Reading order: location (the URL), backend, log_storage (the `LogStorage`), streams (the two streams
of a partition), entries and batches (records to entries and back), entry_ids (offsets and ids),
connection, replicas (WAIT), journal.
"""
