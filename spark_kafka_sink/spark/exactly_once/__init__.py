"""Spark's side of exactly once: what is planned, what a task does, what the driver commits.

Reading order: planning (on the driver, before any task), write_plan (what it hands to all tasks),
task_identity (which batch of which query a task is of), task_writer, messages, writers (commit and
abort on the driver), timeouts.
Which transactions count is not decided here but in the package's own `exactly_once`.
"""
