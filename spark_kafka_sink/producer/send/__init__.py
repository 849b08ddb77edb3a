"""The sender thread's way: drain, in-flight batches, requests, and what answers lead to."""
