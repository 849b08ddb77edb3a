"""Storage of record batches: in memory, or in segment files on disk in Kafka's layout.

In reading order:

- `log_storage`: the interfaces `LogStorage` and `StorageBackend`, log configs, tables of batches
- `segmented_storage`: `SegmentedStorage`, a log of segments, segments in memory, and the in-memory
  backend
- `disk_segment`: a segment on disk, its indexes, its recovery, and open file handles
- `data_dir`: `DataDir`, the backend on disk
- `journal`: cluster metadata (everything besides the logs), kept across restarts
"""
