"""The APIs, one class each: its requests, what its answers say, and what follows from their codes.

In actions.py what is not final, in body.py how a request is written; coordinators.py and
transactions.py ask coordinators, producers.py, fetch.py and append.py leaders, topics.py anybody.
"""
