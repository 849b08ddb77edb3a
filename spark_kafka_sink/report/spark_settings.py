"""Settings of Spark that the reports of its tasks contain as plain numbers: names and values."""

ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""Spark's limits for its Arrow batches."""
UNMEASURED = 2**31 - 1
"""Value of Spark's maxBytesPerBatch with which Spark does not measure its batches."""
SAFE_ARROW_BYTES = 64 * 1024 * 1024
"""Spark's own limit for the size of a batch, in bytes."""
ARROW_COLUMNS = "arrow.columns"
"""The number of the DataFrame's columns that a task writes."""
