"""The writer thread's stages, which convert a chunk of rows to encoded slices for the accumulator.

In reading order:

- `chunk`: a chunk of valid rows, before and after it is admitted and its rows are routed
- `validator`: looks up the topics of a chunk and rejects rows that cannot be written
- `topic_metadata`: requests the metadata of topics and waits for it
- `admission_control`: splits chunks, applies rate limits and waits for buffer quotas
- `partitioner`: assigns a partition to each row: explicit, by key hash, round robin or random
- `user_partitioner`: partitions chosen by a function of the user
- `sticky_partitioner`: chooses the partitions of rows without a key
- `route`: the target partition of each row
- `chunk_encoder`: encodes a chunk and cuts it into slices, one for each batch
"""
