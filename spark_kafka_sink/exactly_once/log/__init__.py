"""The decision log: a compacted topic with the latest decision of each scope.

In reading order:

- `decision`: a record as data, as JSON text and as chunks, and which record is valid
- `json_object`: checked access to the fields of a JSON object
- `decision_log`: create, read and append to the topic
"""
