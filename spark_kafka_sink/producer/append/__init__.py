"""The writer thread's stages, which convert a chunk of rows to encoded slices for the accumulator.

In reading order:

- `validator`: looks up the topics of a chunk and rejects rows that cannot be written
- `admission`: splits chunks, applies rate limits and waits for buffer quotas
- `partitioner`: assigns a partition to each row: explicit, by key hash, round robin, random, sticky
  or by a user function
- `planner`: plans the batches of a chunk, encodes it and cuts it into slices, one for each batch
"""
