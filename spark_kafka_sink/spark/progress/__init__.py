"""Progress of a write while it runs: `with progress(spark): df.write...`.

Spark gives a Python writer no metrics and no accumulators, so tasks tell the driver's Python
themselves: each sends a small UDP datagram every other second, without waiting for anybody. Where
to is told by a file in the application's folder, which the driver's planner reads, so that a write
that nobody watches costs nothing. Reading order: task_progress (what a task tells), address,
task_reporter (in the task), write_progress (their sum), listener (beside the driver), progress.
"""
