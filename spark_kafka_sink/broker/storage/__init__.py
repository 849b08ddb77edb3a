"""Where batches lie: in memory, or in segments on disk as Kafka lays them out.

Reading order: log_storage (the interface), segmented_storage (a log of segments) with log_config,
log_segment and batch_table (a segment in memory), memory_backend; disk_segment, index_files,
segment_recovery, file_handles and data_dir (on disk); journal (what is known besides the logs).
"""
