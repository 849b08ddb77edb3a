"""A topic-partition: validation of appends, the log, producers and transactions.

In reading order:

- `topic`: `Topic`, with its partitions
- `partition`: `Partition`, with the operations of its leader
- `replica_states`: the high watermark, and the positions of the followers
- `log_validator`: validation of produced batches and their records, and recompression
- `producer_state`: idempotence (sequence numbers and producer epochs)
- `log_transactions`: open and aborted transactions, and the last stable offset
- `unified_log`: assignment of offsets and leader epochs, reads, lookups by timestamp
"""
