"""Pass reports, progress and errors of a write from the tasks to files, logs and the caller.

In reading order:

- `publication`: logs a write's summary, writes its report, and exports its metrics
- `write_origin`: where a write comes from: its query, its batch, and its planning
- `planning_file`: the file that passes the planning of a micro-batch to `abort`
- `error_file`: files that pass errors to `abort`
- `report_folder`: the folder of the latest reports of an application or a Spark session
- `report_paths`: the paths to which streams write their reports
- `stored_reports`: the stored reports of micro-batches: their paths, and counts of an earlier run
- `retention`: limit the number of files that a stream writes
- `last_report`: the latest report, also for clients of Spark Connect
- `connect_reports`: a data source that reads the reports of a Spark Connect session
- `task_progress`: the progress of a task as a datagram, and the thread that sends it
- `write_progress`: the progress of a running write, as the sum over its tasks
- `progress_listener`: receives the progress of tasks on the driver
- `progress_display`: displays it on stderr or in a notebook
- `progress`: listens and displays in a `with` block
"""
