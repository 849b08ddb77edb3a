"""What every layer uses; nothing here imports another layer.

errors (the whole hierarchy), delivery_status (what became of a record), clock, credentials (what
no text may show), debug_log (kafka.debug), deadline (a time limit for calls without one),
topic_name, similarity (hints for typos), extras (optional libraries), pyspark_release
(which PySpark will do), version.
"""
