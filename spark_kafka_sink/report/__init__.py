"""The delivery report: what was written where, how fast, and which settings to change.

The reports of tasks are combined into the report of a write.

In reading order:

- `metrics`: the metrics of a running producer, which are part of the report
- `delivery_report`: the report of a task or of a whole write
- `delivery_counters`: the counters of a report, how they are merged, and the JSON form
- `write_status`: the status of a write
- `bad_row_count`: the bad rows with the same reason
- `partition_report`: the counters of one partition
- `task_attempt`: the identity of a task attempt
- `task_report`: the report of a task in one line
- `progress_counts`: counts of delivered records while tasks run
- `codec_cost`: the size and cost of sampled batches with each codec
- `report_builder`: collects the report of a producer session
- `columnar`: a report as columns of numbers, and how such reports are merged
- `packed_report`: a report as a task sends it to the driver
- `spark_settings`: the names of settings of Spark in a report
- `advice`: the settings that a finished report suggests to change, and why
- `display`: a report as text, HTML and tables, and the comparison of two reports
- `file_storage`: writes and reads reports and statistics on any pyarrow file system
- `export`: export metrics to Prometheus, OpenTelemetry and files of Java's metrics
- `plots`: figures of reports, with matplotlib
"""
