"""Statistics of a session in librdkafka's structure, which the sender writes at intervals.

In reading order:

- `librdkafka_statistics`: the values of a line, and when it is written
- `librdkafka_format`: windows, counters and states in librdkafka's format
- `statistics_files`: files of statistics
"""
