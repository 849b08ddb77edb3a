"""What stands between a configuration and Kafka: checks in steps, for a person and for the driver.

To read in this order: finding.py (what a check says); connecting.py, topics.py, topic_settings.py
and permissions.py, which judge what was found out and do no I/O; examination.py and
produce_check.py, which ask the brokers; preflight.py (before a write's tasks) and doctor.py (the
command `kafkaprod doctor`).
"""
