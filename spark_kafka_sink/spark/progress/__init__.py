"""Progress of a write while it runs: `with progress(spark): df.write...`.

Spark gives a Python writer no metrics and no accumulators, so tasks report to the driver's Python
process themselves: each sends a small UDP datagram every other second and waits for nothing. The
address is in a file in the application's folder, which the driver's planner reads. Without that
file nothing is sent, so a write that nobody observes has no overhead.

In reading order:

- `task_reporter`: the datagram of a task, the address, and the thread that sends it
- `progress`: the listener on the driver, the sum over all tasks, and its display
"""
