"""One topic-partition: validation of appends, its log, its producers and its transactions.

In reading order:

- `partition`: `Topic` and `Partition`, with the operations of a partition's leader
- `high_watermark`: the high watermark, and the positions of the followers
- `log_validator`: validation of produced batches and their records, and recompression
- `producer_state`: idempotence (sequence numbers and producer epochs) and open or aborted
  transactions
- `unified_log`: assignment of offsets and leader epochs, reads, lookups by timestamp
"""
