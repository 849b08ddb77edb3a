"""What a session reports: its delivery report and its debug events.

In reading order:

- `session_reporting`: creates the report and the listeners of a session
- `report_listener`: adds the progress of batches to the report
- `producer_events`: events of batches and producer ids, for kafka.debug
"""
