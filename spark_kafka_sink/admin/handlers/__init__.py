"""The APIs, one class each: its requests, what its answers say, and what follows from their codes.

In transactions.py those of coordinators, and what is not final; fetch.py, append.py and topics.py.
"""
