"""Storage of record batches: in memory, or in segment files on disk in Kafka's layout.

In reading order:

- `log_storage`: the interfaces `LogStorage` and `StorageBackend`, and batch tables
- `log_segment`: a segment in memory
- `segmented_storage`: `SegmentedStorage` (a log that consists of segments), and the in-memory
  backend
- `file_handles`: the open files of a data folder
- `segment_indexes`: the index files of a segment
- `disk_segment`: a segment on disk and its recovery
- `data_dir`: `DataDir`, the backend on disk
- `journal`: the journal, which stores cluster metadata (everything except the logs)
"""
