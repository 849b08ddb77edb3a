"""What the sink knows of Spark: its releases, internals, workers, sessions and errors.

In reading order:

- `internals`: what the sink reads from Spark's internals, and what happens without it
- `proc_files`: reads the files in /proc of this process, its ancestors and their threads
- `worker_setup`: what the sink changes in Python workers: garbage collection, tracebacks, Python
- `preloading`: the modules that `warm_up`, or else a worker's first task, imports
- `pyspark_requirement`: errors if PySpark is missing or too old
- `spark_releases`: differences between PySpark releases
- `worker_context`: settings and shipped files that are available to a Python worker
- `continuous_processing`: rejects streams whose rows Spark would drop
- `session_checks`: checks of the Spark session that is passed to a public function
- `spark_errors`: converts exceptions of Spark to errors of this package
- `log_lines`: the format of log lines in Spark's Python workers
"""
