"""The delivery report: what was written where, how well, and what to change.

Reading order: delivery_report and its parts (partition_report, task_report, poison_count), all of
which add up; builder, which collects them in a task; then what reads a finished report: summary
(text), tables (terminal), advisor with pipeline (advice), storage with location (files).
"""
