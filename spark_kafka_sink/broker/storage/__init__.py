"""Storage of record batches: in memory, or in segment files on disk in Kafka's layout.

In reading order:

- `log_storage`: the interfaces `LogStorage` and `StorageBackend`, and batch tables
- `segmented_storage`: `SegmentedStorage` (a log that consists of segments), segments in memory, and
  the in-memory backend
- `disk_segment`: a segment on disk with its indexes and its recovery, and open file handles
- `data_dir`: `DataDir`, the backend on disk
- `journal`: the journal, which stores cluster metadata (everything except the logs)
"""
