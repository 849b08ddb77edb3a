"""Read and append records of partitions with blocking requests, on the caller's thread.

Exactly once reads and appends its decisions with them; users read topics.

In reading order:

- `fetch`: fetches from the leader of a partition
- `log_reader`: reads the committed records of one partition
- `topic_reader`: reads the records of topics between offsets, as a consumer without a group
- `append_handlers`: the requests that append records, and their results
- `appender`: appends records to one partition in a transaction
"""
