"""Storage of record batches: in memory, or in segment files on disk in Kafka's layout.

In reading order:

- `log_storage`: the base classes `LogStorage` and `StorageBackend`
- `batch_table`: the batches of a segment
- `log_segment`: a segment in memory
- `segmented_storage`: `SegmentedStorage`, a log that consists of segments: rolling and retention
- `memory_backend`: `MemoryBackend`, the backend in memory
- `file_handles`: the open files of a data folder
- `segment_indexes`: the index files of a segment
- `disk_segment`: a segment on disk
- `log_recovery`: which data is kept, cut off or rejected when the broker starts
- `data_dir`: `DataDir`, the backend on disk
- `journal`: the journal, which stores cluster metadata (everything except the logs)
- `state_lock`: the lock on the cluster's state, used if a separate thread handles requests
"""
