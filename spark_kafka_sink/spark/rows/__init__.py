"""Convert Spark's Arrow batches to the producer's rows.

In reading order:

- `arrow_gathering`: concatenates small Arrow batches
- `chunk_ranges`: divides Arrow batches into chunks, which are encoded at once
- `rows_from_arrow`: converts Spark's Arrow batches to the producer's rows
- `row_checks`: the errors of the rows of a batch
- `plain_names`: column names that `mapInArrow` can resolve
- `serialization`: serializes columns as JSON, Avro or Protobuf
- `expected_rows`: converts a frame's rows to what a consumer would decode, for tests
"""
