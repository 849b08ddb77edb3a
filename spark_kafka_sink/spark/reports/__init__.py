"""Reports that the driver's Python gets without a path: `last_report`.

A writer's `commit` and `abort` run in a Python worker beside the driver. Both know the folder of
the files that Spark ships, which Spark makes for each application (with Spark Connect for each
session) and deletes at its end: the latest reports lie in there. Reading order: write_origin (what
the driver knows of a write), report_folder, session_reports (Spark Connect), last_report;
stream_reports says where those of micro-batches lie that have a path. error_file and plan_file tell
`abort` what Spark does not: why, and since when.
"""
