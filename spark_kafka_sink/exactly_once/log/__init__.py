"""The decision log: a topic that says of each scope what was decided, and whether it is done.

Read in this order: `decision` (a record as data), `decision_format` and `json_object` (as bytes),
`decision_records` (keys, chunks, and which record holds), `decision_log` (the topic).
"""
