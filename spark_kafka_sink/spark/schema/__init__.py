"""The columns of a DataFrame, and the schemas by which they are serialized.

In reading order:

- `dataframe_schema`: the columns that a DataFrame must have
- `selection`: the columns that are serialized as key and value
- `arrow_schema`: the Arrow schema in which Spark passes rows to tasks
- `stream_start`: the start of a query, and the roles and schemas that its micro-batches reuse
- `spec_completion`: adds the schemas of key and value: derived, from an option or a registry
"""
