"""Reports and summaries that the driver publishes, and `last_report`, which needs no path.

A writer's `commit` and `abort` run in a Python worker on the driver. Both know the folder of the
files that Spark ships, which Spark creates for each application (with Spark Connect for each
session) and deletes at its end. The latest reports are stored there.

In reading order:

- `publication`: log the summary, write the report and the metrics of a write
- `report_folder`: folders for the reports of an application, a session and a stream
- `last_report`: the latest report, also for clients of Spark Connect
- `error_file`: task errors, planning times and the origin of a write, as files for `abort`
- `log_lines`: the format of log lines in Spark's Python workers
"""
