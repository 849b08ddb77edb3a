"""A task's write, the driver's commit and abort, and the classes by which Spark calls them.

In reading order:

- `task_writer`: a task's write
- `write_completion`: commit and abort on the driver
- `data_source_writers`: the writers of `format("kafkaprod")` for batches and micro-batches
- `warm_up_writer`: the writer that starts Python workers before a session's first write
- `commit_messages`: the commit messages of tasks, and their merged report
- `map_task`: the function that `write` runs in the tasks
"""
