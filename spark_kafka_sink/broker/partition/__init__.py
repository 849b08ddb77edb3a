"""One topic-partition: which batches may be appended, its log, its producers and transactions.

Reading order: topic, partition (what its leader does), log_validator and record_validator with
append_options and refused_batch (may a batch enter?), recompression, producer_state_manager
(idempotence), partition_transactions (transactions), unified_log and leader_epoch_cache
(where batches get their offsets), replica_states (how far followers are).
"""
