"""The writer thread's stages: they turn a chunk of rows into encoded slices for the accumulator.

In reading order:

- `validator`: looks up the topics of a chunk and rejects rows that cannot be written
- `admission`: splits chunks, applies rate limits and waits for buffer quotas
- `partitioner`: assigns a partition to each row: explicit, by key hash, round robin, random or by a
  user function
- `sticky_partitioner`: chooses partitions for rows without a key
- `planner`: the chunk types, and the plan that maps each row to a batch and offset delta
- `chunk_encoder`: encodes a planned chunk and cuts it into slices, one for each batch
"""
