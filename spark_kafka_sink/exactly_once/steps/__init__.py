"""The driver's steps: each does one thing to Kafka, in the order that the protocol says.

Read in this order: `driver` (fence, read, append), `planning`, `commit` and `abort` (the calls),
`checks` (before a decision), `finish` and `roll_forward` (behind it), `torn` and `markers` (what is
lost), `orphan_sweep`. `shared` has the same calls for a batch in one transaction.
"""
