"""The producer of one Spark task: sends rows to Kafka and returns a delivery report.

Three threads share the work. The writer thread passes each chunk of rows through the stages of
`append`, the codec thread compresses closed batches, and the sender thread drains them into Produce
requests. `buffer` contains the state that the threads share.

In reading order:

- `session`: the writer thread's entry point (append, flush, report), and the reuse of clients and
  producer ids across tasks
- `context`: the sink's own options for a session, and the objects that its parts share
- `error_tolerance`: one chunk of rows before it is encoded, and the errors of single rows
- `append`: the writer thread's stages, from validation to the accumulator
- `buffer`: batches, memory accounting and throttling, shared by writer and sender
- `send`: the sender thread, from draining batches to handling responses
- `transactions`: the session's transaction and its coordinator
- `producer_id`: producer id and epoch, and the InitProducerId request
- `dead_letter`: dead letters for rows that cannot be written
- `acl`: the missing ACL and the command that grants it, for each authorization failure
- `dry_run`: the sender of a dry run, and the comparison of codecs
"""
