"""The columns of a DataFrame, and the schemas by which they are serialized.

In reading order:

- `dataframe_schema`: the columns that a DataFrame must have
- `selection`: the columns that are serialized as key and value
- `encoder_specs`: adds the schemas of key and value: derived, set by an option, or from a registry
"""
