"""Names of the settings of Spark that the reports of Spark tasks contain, as plain numbers."""

ARROW_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
ARROW_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
"""Spark's limits for its Arrow batches."""
ARROW_COLUMNS = "arrow.columns"
"""The number of the DataFrame's columns that a task writes."""
