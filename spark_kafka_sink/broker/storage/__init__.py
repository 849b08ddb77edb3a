"""Storage of record batches: in memory, or in segment files on disk in Kafka's layout.

In reading order:

- `log_storage`: the interfaces `LogStorage` and `StorageBackend`, and the log configs
- `segmented_storage`: `SegmentedStorage`, a log of segments, and the in-memory backend
- `log_segment`: the interface of a segment, its table of batches, and the segment in memory
- `disk_segment`: a segment on disk, its indexes, its recovery, and open file handles
- `data_dir`: `DataDir`, the backend on disk
- `journal`: cluster metadata (everything besides the logs), kept across restarts
"""
