"""Requests of a thread that waits for their answers: transactions, topics and the raw log.

For the driver, its planning and commit processes, and the command line; tasks produce without it.
To read in this order: call.py (one request), blocking_client.py (the thread's own network) with
client_pool.py; api_driver.py (many keys, each tried until it is answered) with lookups.py (which
broker is asked), coordinators.py and the room handlers (what is asked); transaction_admin.py with
transaction_states.py and denials.py; log_reader.py with committed_records.py; appender.py;
topic_admin.py.
"""
